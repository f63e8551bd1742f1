//! Captures and their names in SQL.

use std::path::Path;
use std::str::FromStr;

use stallmap::location::CaptureLocation;
use stallmap::session::every::EVERY;

/// A capture and its name in SQL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedCapture {
    /// The name before `=`.
    pub name: Option<String>,
    /// The capture.
    pub path: CaptureLocation,
}

impl FromStr for NamedCapture {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if is_statement(text) {
            return Err("this is a statement, not a capture: put -c before it".to_owned());
        }
        let is_name = |name: &str| {
            !name.is_empty() && name.chars().all(|char| char.is_ascii_alphanumeric() || char == '_')
        };
        match text.split_once('=') {
            // A path may contain `=` too: the text before it is a name only if it looks like one.
            Some((name, path)) if is_name(name) && !path.is_empty() => {
                Ok(Self { name: Some(name.to_ascii_lowercase()), path: path.into() })
            }
            Some((name, "")) => Err(format!("`{name}=` names no capture")),
            _ => Ok(Self { name: None, path: text.into() }),
        }
    }
}

/// True for text that begins as SQL does.
pub(crate) fn is_statement(text: &str) -> bool {
    let begin = text.split_once(char::is_whitespace).map_or("", |(word, _)| word);
    ["select", "with", "explain", "describe", "show"].iter().any(|word| begin.eq_ignore_ascii_case(word))
}

/// Captures with a name for each if there are several: the given one, or its file's in letters, digits and `_`.
pub fn with_names<L: Clone + AsRef<Path>>(captures: &[(Option<String>, L)]) -> Vec<(Option<String>, L)> {
    let mut named = captures.to_vec();
    for index in 0..named.len() {
        if named.len() > 1 && named[index].0.is_none() {
            let name = free_name(named[index].1.as_ref(), &named);
            named[index].0 = Some(name);
        }
    }
    named
}

/// The name of a file in letters, digits and `_`, which no other capture has.
pub fn free_name<L>(path: &Path, taken: &[(Option<String>, L)]) -> String {
    let stem = path.file_stem().map(|stem| stem.to_string_lossy().to_ascii_lowercase()).unwrap_or_default();
    let plain = |char: char| if char.is_ascii_alphanumeric() { char } else { '_' };
    let mut name: String = stem.chars().map(plain).collect();
    if !name.starts_with(|char: char| char.is_ascii_lowercase()) || name == EVERY {
        name.insert_str(0, "capture_");
    }
    let is_taken = |name: &str| taken.iter().any(|(other, _)| other.as_deref() == Some(name));
    let numbered = (2..).map(|number| format!("{name}_{number}"));
    std::iter::once(name.clone()).chain(numbered).find(|name| !is_taken(name)).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_captures_are_before_the_equals_sign() {
        let parse = |text: &str| text.parse::<NamedCapture>();
        let named = |name: Option<&str>, path: &str| {
            Ok(NamedCapture { name: name.map(str::to_owned), path: path.into() })
        };
        assert_eq!(parse("a=one.stallmap"), named(Some("a"), "one.stallmap"));
        assert_eq!(parse("one.stallmap"), named(None, "one.stallmap"));
        assert!(parse("SELECT * FROM launch WHERE a = 1").unwrap_err().contains("-c"));
        assert_eq!(parse("with.stallmap"), named(None, "with.stallmap"));
        assert_eq!(parse("runs/lr=0.1/one.stallmap"), named(None, "runs/lr=0.1/one.stallmap"));
        assert!(parse("a=").is_err());
    }

    #[test]
    fn names_are_those_of_files() {
        let given = ["a/Step-1.stallmap", "x=b.stallmap", "b/step-1.stallmap", "7.stallmap"];
        let given = given.map(|text| text.parse::<NamedCapture>().unwrap()).map(|one| (one.name, one.path));
        let names: Vec<_> = with_names(&given).into_iter().map(|(name, _)| name.unwrap()).collect();
        assert_eq!(names, ["step_1", "x", "step_1_2", "capture_7"]);
        assert_eq!(with_names(&given[..1])[0].0, None);
    }
}
