//! Text for a page: a capture comes from a stranger, so nothing of it is ever markup.

/// A page under construction. Markup is written in the program; everything else goes through `text`.
#[derive(Debug, Default)]
pub(in super::super) struct Html(String);

impl Html {
    /// Markup of ours.
    pub(super) fn markup(&mut self, markup: &'static str) -> &mut Self {
        self.0 += markup;
        self
    }

    /// Text of anyone's, in an element or in an attribute between double quotes.
    pub(super) fn text(&mut self, text: &str) -> &mut Self {
        for char in text.chars() {
            match char {
                '&' => self.0 += "&amp;",
                '<' => self.0 += "&lt;",
                '>' => self.0 += "&gt;",
                '"' => self.0 += "&quot;",
                '\'' => self.0 += "&#39;",
                // Controls and marks that turn the reading direction would show something else than is there.
                char if is_hidden(char) => self.0.push('\u{fffd}'),
                char => self.0.push(char),
            }
        }
        self
    }

    /// A number.
    pub(super) fn number(&mut self, number: impl Into<f64>) -> &mut Self {
        let number: f64 = number.into();
        self.0.extend([format!("{number:.3}")]);
        self
    }

    /// The finished page.
    pub(in super::super) fn finish(self) -> String {
        self.0
    }
}

fn is_hidden(char: char) -> bool {
    char.is_control() && !matches!(char, '\n' | '\t')
        || matches!(char, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_becomes_markup() {
        let mut html = Html::default();
        html.text("</title><script>alert('1')</script>\" onload=\"x&y\u{1b}\u{202e}");
        let expected = "&lt;/title&gt;&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;&quot; onload=&quot;x&amp;y\u{fffd}\u{fffd}";
        assert_eq!(html.finish(), expected);
    }
}
