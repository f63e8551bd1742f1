//! Places in source code as other programs name them: a file relative to a root, and a line.

use std::path::Path;

use serde_json::{Value, json};

/// `file:line function`, as views name lines.
#[derive(Debug, PartialEq, Eq)]
pub struct LineLocation<'a> {
    /// The file, as it was recorded.
    pub file: &'a str,
    /// The line, from 1.
    pub line: u32,
    /// The rest of the text.
    pub function: &'a str,
}

impl<'a> LineLocation<'a> {
    /// None if the text does not begin with a file and a line.
    pub fn parse(text: &'a str) -> Option<Self> {
        let (place, function) = text.split_once(' ')?;
        let (file, line) = place.rsplit_once(':')?;
        Some(Self { file, line: line.parse().ok().filter(|line| *line > 0)?, function })
    }

    /// The file below a root. A file elsewhere stays as it is.
    pub fn file_below(&self, root: Option<&Path>) -> &'a str {
        let below = root.and_then(|root| Path::new(self.file).strip_prefix(root).ok());
        below.and_then(Path::to_str).unwrap_or(self.file)
    }

    /// A location of SARIF 2.1.0, relative to its base `SRCROOT`.
    pub fn location(&self, root: Option<&Path>) -> Value {
        json!({ "physicalLocation": {
            "artifactLocation": { "uri": uri(self.file_below(root)), "uriBaseId": "SRCROOT" },
            "region": { "startLine": self.line },
        } })
    }
}

/// A relative path as a URI reference.
fn uri(path: &str) -> String {
    let mut text = String::new();
    for byte in path.trim_start_matches('/').bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            text.push(char::from(byte));
        } else {
            text.extend(['%', hex(byte >> 4), hex(byte & 15)]);
        }
    }
    text
}

fn hex(digit: u8) -> char {
    char::from_digit(digit.into(), 16).unwrap_or('0').to_ascii_uppercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_places() {
        assert_eq!(LineLocation::parse("a b.py"), None);
        assert_eq!(LineLocation::parse("m.py:0 f"), None);
        let place = LineLocation { file: "m.py", line: 31, function: "f (grad)" };
        assert_eq!(LineLocation::parse("m.py:31 f (grad)"), Some(place));
        assert_eq!(uri("/a b/<x>.py"), "a%20b/%3Cx%3E.py");
    }

    #[test]
    fn files_are_relative_to_the_root_above_them() {
        let place = LineLocation { file: "/home/me/model/m.py", line: 1, function: "f" };
        let below = |root: &str| place.file_below(Some(Path::new(root)));
        assert_eq!([below("/home/me/model"), below("/home/me/mod")], ["m.py", "/home/me/model/m.py"]);
        assert_eq!(place.file_below(None), "/home/me/model/m.py");
    }
}
