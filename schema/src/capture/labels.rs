//! Labels of a capture: what its users call it, such as its commit, branch or model.
//!
//! They are in the manifest, so a catalog of many captures reads them without a table. Labels that the recorder takes from
//! the environment are options of a run, named [`RECORDED`] and the key.

use std::collections::BTreeMap;

/// Start of the names of run options that are labels.
pub const RECORDED: &str = "label.";
/// Maximum labels of a capture.
pub const MAX_LABELS: usize = 64;
/// Maximum size of a key.
pub const MAX_KEY_BYTES: usize = 64;
/// Maximum size of a value.
pub const MAX_VALUE_BYTES: usize = 256;

/// Labels by key.
pub type CaptureLabels = BTreeMap<String, String>;

/// Parses `key=value`.
///
/// # Errors
/// Fails if the text is not a label.
pub fn parse(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or_else(|| format!("`{text}` is not KEY=VALUE"))?;
    check_label(key, value)?;
    Ok((key.to_owned(), value.to_owned()))
}

/// Checks a label. An empty value is one.
///
/// # Errors
/// Fails with the reason if it is too long or has other characters than allowed.
pub fn check_label(key: &str, value: &str) -> Result<(), String> {
    let is_allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "_-.".contains(c);
    if key.is_empty() || key.len() > MAX_KEY_BYTES || !key.chars().all(is_allowed) {
        return Err(format!(
            "label {key:?} has a key other than 1 to {MAX_KEY_BYTES} of the characters a-z, 0-9, `_`, `-`, `.`"
        ));
    }
    // A list of labels as one text separates them by commas.
    if value.len() > MAX_VALUE_BYTES || value.chars().any(|c| c.is_control() || c == ',') {
        return Err(format!(
            "label `{key}` has a value of more than {MAX_VALUE_BYTES} bytes, or with a comma or control character"
        ));
    }
    Ok(())
}

/// Checks the labels of a capture.
///
/// # Errors
/// Fails with the reason for the first that is wrong, or if there are too many.
pub fn check_labels(labels: &CaptureLabels) -> Result<(), String> {
    if labels.len() > MAX_LABELS {
        return Err(format!("it has more than {MAX_LABELS} labels"));
    }
    labels.iter().try_for_each(|(key, value)| check_label(key, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_a_short_key_and_a_short_value() {
        assert_eq!(parse("model=gpt2=xl"), Ok(("model".to_owned(), "gpt2=xl".to_owned())));
        assert_eq!(parse("commit="), Ok(("commit".to_owned(), String::new())));
        for wrong in
            ["model", "=x", "Model=x", "a b=x", "a=1,2", "a=\u{1b}[2J", &format!("a={}", "x".repeat(257))]
        {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
