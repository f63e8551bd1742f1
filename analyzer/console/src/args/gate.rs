//! Conditions that make `stallmap diff` fail: `[PART.]METRIC > or < CHANGE [beyond noise]`.

use std::str::FromStr;

use clap::ValueEnum;

use super::diff::{DiffMetric, DiffPart};

/// Suffix of a condition on the bound of the confidence interval instead of the estimate.
const BEYOND_NOISE: &str = "beyond noise";

/// Units of absolute changes.
const UNITS: [(&str, f64); 8] = [
    ("ns", 1.0),
    ("us", 1e3),
    ("µs", 1e3),
    ("ms", 1e6),
    ("KiB", 1024.0),
    ("MiB", 1_048_576.0),
    ("GiB", 1_073_741_824.0),
    ("s", 1e9),
];

/// A condition.
#[derive(Clone, Debug, PartialEq)]
pub struct ChangeCondition {
    /// Original text.
    pub text: String,
    /// Any row of this part, or the total without one.
    pub part: Option<DiffPart>,
    /// The metric.
    pub metric: DiffMetric,
    /// True if changes above the limit fail, otherwise those below.
    pub is_above: bool,
    /// The change.
    pub limit: ChangeLimit,
    /// True if only significant changes count.
    pub is_beyond_noise: bool,
}

/// Limit of a change.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ChangeLimit {
    /// Relative to the first capture's number.
    Share(f64),
    /// In the metric's unit.
    Amount(f64),
}

impl FromStr for ChangeCondition {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let condition = text.trim();
        let (condition, is_beyond_noise) = match condition.strip_suffix(BEYOND_NOISE) {
            Some(rest) => (rest.trim_end(), true),
            None => (condition, false),
        };
        let at = condition.find(['<', '>']).ok_or("a condition has < or >, as in 'time > +5%'")?;
        let (subject, rest) = condition.split_at(at);
        let (is_above, limit) = (rest.starts_with('>'), rest.get(1..).unwrap_or_default().trim());
        let (part, metric) = match subject.trim().split_once('.') {
            Some((part, metric)) => (Some(word::<DiffPart>(part, "part")?), metric),
            None => (None, subject),
        };
        let gate = Self {
            text: text.to_owned(),
            part,
            metric: word(metric, "metric")?,
            is_above,
            limit: limit.parse()?,
            is_beyond_noise,
        };
        gate.check()
    }
}

impl ChangeCondition {
    fn check(self) -> Result<Self, String> {
        match (self.part, self.metric) {
            (Some(DiffPart::Tensors | DiffPart::Roles | DiffPart::Instructions), DiffMetric::Launches) => {
                Err("launches are counted of lines, ops, kernels and aligned, or in all".to_owned())
            }
            _ => Ok(self),
        }
    }
}

impl FromStr for ChangeLimit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| {
            let number = text.trim().replace(',', "").parse::<f64>().ok().filter(|number| number.is_finite());
            number
                .ok_or_else(|| format!("`{text}` is not a change; hint: give one such as +5%, -100 or +2us"))
        };
        if let Some(percent) = text.strip_suffix('%') {
            return number(percent).map(|percent| Self::Share(percent / 100.0));
        }
        let unit = UNITS.iter().find_map(|&(unit, size)| text.strip_suffix(unit).map(|rest| (rest, size)));
        let (text, size) = unit.unwrap_or((text, 1.0));
        number(text).map(|amount| Self::Amount(amount * size))
    }
}

/// Parses an enum value, with the list of values as error.
fn word<T: ValueEnum>(text: &str, what: &str) -> Result<T, String> {
    T::from_str(text.trim(), false).map_err(|_error| {
        let words = T::value_variants().iter().filter_map(ValueEnum::to_possible_value);
        let words = words.map(|word| word.get_name().to_owned()).collect::<Vec<_>>().join(", ");
        format!("`{}` is not a {what}; hint: choose one of {words}", text.trim())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_read() {
        let gate: ChangeCondition = "tensors.samples > +10% beyond noise".parse().unwrap();
        assert_eq!((gate.part, gate.metric), (Some(DiffPart::Tensors), DiffMetric::Samples));
        assert_eq!((gate.is_above, gate.limit, gate.is_beyond_noise), (true, ChangeLimit::Share(0.1), true));
        let gate: ChangeCondition = "time<-2.5us".parse().unwrap();
        assert_eq!((gate.part, gate.is_above, gate.is_beyond_noise), (None, false, false));
        assert_eq!(gate.limit, ChangeLimit::Amount(-2500.0));
        let limits = ["+1,000", "5 %", "2MiB", "-3s"].map(|text| text.parse::<ChangeLimit>().unwrap());
        let expected = [
            ChangeLimit::Amount(1000.0),
            ChangeLimit::Share(0.05),
            ChangeLimit::Amount(2_097_152.0),
            ChangeLimit::Amount(-3e9),
        ];
        assert_eq!(limits, expected);
    }

    #[test]
    fn what_is_no_condition_is_explained() {
        let wrong = |text: &str| text.parse::<ChangeCondition>().unwrap_err();
        assert!(wrong("time +5%").contains("has < or >"));
        assert!(wrong("tmie > 5%").contains("`tmie` is not a metric; hint: choose one of samples"));
        assert!(wrong("tensor_s.time > 5%").contains("is not a part; hint: choose one of tensors"));
        assert!(wrong("time > fast").contains("`fast` is not a change"));
        assert!(wrong("time > nan").contains("is not a change"));
        assert!(wrong("tensors.launches > 5").contains("lines, ops, kernels and aligned"));
    }
}
