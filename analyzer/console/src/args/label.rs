//! Labels that choose captures: `KEY=VALUE`.

use std::fmt;
use std::str::FromStr;

/// A label that a capture must have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelCondition {
    /// The label's key.
    pub key: String,
    /// Its value.
    pub value: String,
}

impl FromStr for LabelCondition {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (key, value) = text.split_once('=').ok_or("a label is KEY=VALUE")?;
        if key.is_empty() || value.is_empty() {
            return Err("a label is KEY=VALUE".to_owned());
        }
        Ok(Self { key: key.to_owned(), value: value.to_owned() })
    }
}

impl fmt::Display for LabelCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.key, self.value)
    }
}

impl LabelCondition {
    /// The condition in SQL, over the columns of a fleet's tables.
    pub fn sql(&self) -> String {
        let text = |text: &str| format!("'{}'", text.replace('\'', "''"));
        format!("label(labels, {}) = {}", text(&self.key), text(&self.value))
    }

    /// Several conditions in SQL, all of which must hold.
    pub fn all_sql(conditions: &[Self]) -> String {
        let conditions: Vec<String> = conditions.iter().map(Self::sql).collect();
        if conditions.is_empty() { "true".to_owned() } else { conditions.join(" AND ") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_conditions_of_sql() {
        let label: LabelCondition = "model=it's".parse().unwrap();
        assert_eq!(label.sql(), "label(labels, 'model') = 'it''s'");
        assert_eq!(LabelCondition::all_sql(&[]), "true");
        assert!("model".parse::<LabelCondition>().is_err() && "=x".parse::<LabelCondition>().is_err());
    }
}
