//! Separators of thousands and decimals: ncu writes numbers as the locale has them.
//!
//! `117.344` is one hundred and seventeen in one locale, and a thousand times as much in another. Other numbers of the file
//! decide: `27.595.520` and `42,50` have one reading each.

/// The separator of decimals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DecimalSeparator {
    Point,
    Comma,
}

/// Numbers of a file that have one reading, by their separator of decimals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SeparatorEvidence {
    point: u64,
    comma: u64,
}

impl SeparatorEvidence {
    /// Adds a value.
    pub(super) fn add(&mut self, text: &str) {
        match decimal(text) {
            Some(DecimalSeparator::Point) => self.point += 1,
            Some(DecimalSeparator::Comma) => self.comma += 1,
            None => {}
        }
    }

    /// The separator of decimals: a point if nothing shows another. None if the numbers disagree.
    pub(super) fn decimal(self) -> Option<DecimalSeparator> {
        match (self.point, self.comma) {
            (_, 0) => Some(DecimalSeparator::Point),
            (0, _) => Some(DecimalSeparator::Comma),
            _ => None,
        }
    }
}

impl DecimalSeparator {
    /// A number with or without separators of thousands.
    pub(super) fn number(self, text: &str) -> Option<f64> {
        let (thousands, decimals) = match self {
            Self::Point => (',', '.'),
            Self::Comma => ('.', ','),
        };
        let plain: String = text
            .chars()
            .filter(|letter| *letter != thousands && !is_group(*letter))
            .map(|letter| if letter == decimals { '.' } else { letter })
            .collect();
        let is_number = plain.chars().all(|letter| letter.is_ascii_digit() || "+-.eE".contains(letter));
        plain.parse().ok().filter(|value: &f64| is_number && value.is_finite())
    }
}

/// Separators of thousands that no locale has for decimals.
fn is_group(letter: char) -> bool {
    letter.is_whitespace() || matches!(letter, '\'' | '\u{2019}')
}

/// The separator of decimals that a number shows. None if it has several readings, or is not a number.
fn decimal(text: &str) -> Option<DecimalSeparator> {
    let text = text.strip_prefix('-').unwrap_or(text);
    let is_number = |letter: char| letter.is_ascii_digit() || matches!(letter, '.' | ',') || is_group(letter);
    if !text.starts_with(|first: char| first.is_ascii_digit()) || !text.chars().all(is_number) {
        return None;
    }
    let last = text.rfind(['.', ','])?;
    let (front, behind) = text.split_at_checked(last)?;
    let (is_comma, digits) = (behind.starts_with(','), behind.len() - 1);
    match (front.contains('.'), front.contains(',')) {
        // Of two separators the last one is that of decimals. One that repeats is that of thousands.
        (true, true) => None,
        (true, false) => Some(DecimalSeparator::Comma),
        (false, true) => Some(DecimalSeparator::Point),
        (false, false) => (digits != 3 || front.len() > 3 || front == "0").then_some(if is_comma {
            DecimalSeparator::Comma
        } else {
            DecimalSeparator::Point
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_shows_its_separator_or_none() {
        for text in ["1,234.5", "1,234,567", "42.50", "1234.567", "0.125"] {
            assert_eq!(decimal(text), Some(DecimalSeparator::Point), "{text}");
        }
        for text in ["1.234,5", "1.234.567", "42,50", "1234,567", "0,125", "27\u{202f}595,5"] {
            assert_eq!(decimal(text), Some(DecimalSeparator::Comma), "{text}");
        }
        for text in ["117.344", "117,344", "128", "n/a", "1,2; 3", ""] {
            assert_eq!(decimal(text), None, "{text}");
        }
    }

    #[test]
    fn numbers_are_read_in_their_locale() {
        assert_eq!(DecimalSeparator::Comma.number("27.595.520"), Some(27_595_520.0));
        assert_eq!(DecimalSeparator::Comma.number("42,50"), Some(42.5));
        assert_eq!(DecimalSeparator::Comma.number("27\u{202f}595,5"), Some(27_595.5));
        assert_eq!(DecimalSeparator::Point.number("12,345.5"), Some(12_345.5));
        assert_eq!(
            (DecimalSeparator::Point.number("n/a"), DecimalSeparator::Point.number("inf")),
            (None, None)
        );
        let mut evidence = SeparatorEvidence::default();
        evidence.add("117.344");
        evidence.add("42,50");
        assert_eq!(evidence.decimal(), Some(DecimalSeparator::Comma));
        evidence.add("1.5");
        assert_eq!(evidence.decimal(), None);
    }
}
