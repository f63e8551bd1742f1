//! A saved query: one SELECT with a comment above it, and parameters such as `$top`.

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::fault::{LibraryRule, TextFlaw};
use crate::lexer::{self, TokenKind};

/// A query of a user's library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedQuery {
    /// The file's name without its ending.
    pub name: String,
    /// The folder that it is in.
    pub package: String,
    /// The question: the first line of its comment.
    pub title: String,
    /// The other lines.
    pub doc: String,
    /// Parameters.
    pub parameters: Vec<QueryParameter>,
    /// The file's text.
    pub sql: String,
    /// The file.
    pub file: PathBuf,
}

/// Something in a query that is set when it is run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueryParameter {
    /// Its name, without the dollar sign.
    pub name: String,
    /// Its default value.
    pub default: Option<String>,
    /// Its kind.
    pub doc: String,
}

/// Why a query cannot be filled in.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnfilledQuery {
    /// A value for an unknown parameter.
    #[error("query `{query}` has no parameter `{name}`; hint: {}", known(.parameters))]
    Unknown {
        /// The query.
        query: String,
        /// The given name.
        name: String,
        /// Its parameters.
        parameters: Vec<String>,
    },
    /// A parameter without value and default.
    #[error("query `{query}` needs a value for `{name}`: {doc}; hint: set it with {name}=VALUE")]
    Missing {
        /// The query.
        query: String,
        /// The parameter.
        name: String,
        /// Its kind.
        doc: String,
    },
}

fn known(parameters: &[String]) -> String {
    if parameters.is_empty() { "it has none".to_owned() } else { format!("it has {}", parameters.join(", ")) }
}

impl SavedQuery {
    /// Reads a query's comment and parameters.
    pub(super) fn parse(package: &str, name: &str, text: &str, file: PathBuf) -> Result<Self, TextFlaw> {
        let comment = || text.lines().map_while(|line| line.trim().strip_prefix("--")).map(str::trim);
        let title = comment().next().unwrap_or_default();
        if title.is_empty() {
            let message = "the file does not begin with a comment that holds its question";
            return Err(TextFlaw::new(1, LibraryRule::Header, message));
        }
        let parameters: Vec<QueryParameter> = comment().filter_map(parameter).collect();
        for (used, line) in used(text) {
            if !parameters.iter().any(|parameter| parameter.name == used) {
                let message = format!("`${used}` is used, but the comment does not describe it");
                return Err(TextFlaw::new(line, LibraryRule::Parameter, message));
            }
        }
        let doc = comment().skip(1).filter(|line| parameter(line).is_none()).collect::<Vec<_>>().join("\n");
        let (name, package) = (name.to_owned(), package.to_owned());
        let title = title.trim_end_matches('.').to_owned();
        Ok(Self { name, package, title, doc, parameters, sql: text.to_owned(), file })
    }

    /// The query with values for its parameters, ready to run.
    pub fn filled(&self, values: &[(String, String)]) -> Result<String, UnfilledQuery> {
        let is_known = |name: &str| self.parameters.iter().any(|parameter| parameter.name == name);
        if let Some((name, _)) = values.iter().find(|(name, _)| !is_known(name)) {
            let parameters = self.parameters.iter().map(|parameter| parameter.name.clone()).collect();
            return Err(UnfilledQuery::Unknown { query: self.name.clone(), name: name.clone(), parameters });
        }
        let mut all = Vec::new();
        for QueryParameter { name, default, doc } in &self.parameters {
            let given = values.iter().rev().find(|(given, _)| given == name).map(|(_, value)| value);
            let value = given.or(default.as_ref()).ok_or_else(|| UnfilledQuery::Missing {
                query: self.name.clone(),
                name: name.clone(),
                doc: doc.clone(),
            })?;
            all.push((name.as_str(), literal(value)));
        }
        Ok(fill(&self.sql, &all))
    }

    /// The query with defaults for planning. Parameters without default are null.
    pub(super) fn sample(&self) -> String {
        let value =
            |parameter: &QueryParameter| parameter.default.as_deref().map_or("NULL".to_owned(), literal);
        let all: Vec<_> =
            self.parameters.iter().map(|parameter| (parameter.name.as_str(), value(parameter))).collect();
        fill(&self.sql, &all)
    }
}

/// `$name: description` or `$name = default: description`.
fn parameter(line: &str) -> Option<QueryParameter> {
    let (name, doc) = line.strip_prefix('$')?.split_once(':')?;
    let (name, default) = match name.split_once('=') {
        Some((name, default)) => (name.trim(), Some(default.trim().to_owned())),
        None => (name.trim(), None),
    };
    let is_name = !name.is_empty() && name.chars().all(lexer::is_word);
    is_name.then(|| QueryParameter { name: name.to_owned(), default, doc: doc.trim().to_owned() })
}

/// The parameters that a text uses outside texts and comments, with their lines.
fn used(text: &str) -> BTreeSet<(String, usize)> {
    let tokens: Vec<_> = lexer::tokens(text).collect();
    let pairs = tokens.windows(2).filter_map(|pair| match pair {
        [dollar, name]
            if dollar.text == "$" && dollar.kind == TokenKind::Other && name.kind == TokenKind::Word =>
        {
            Some((name.text.to_owned(), text[..dollar.start].matches('\n').count() + 1))
        }
        _ => None,
    });
    pairs.collect()
}

/// The text with each `$name` outside texts and comments replaced.
fn fill(text: &str, values: &[(&str, String)]) -> String {
    let mut filled = String::new();
    let mut tokens = lexer::tokens(text).peekable();
    while let Some(token) = tokens.next() {
        let is_dollar = token.text == "$" && token.kind == TokenKind::Other;
        let value = tokens.peek().filter(|next| is_dollar && next.kind == TokenKind::Word).and_then(|next| {
            values.iter().find(|(name, _)| *name == next.text).map(|(_, value)| value.as_str())
        });
        filled.push_str(value.unwrap_or(token.text));
        if value.is_some() {
            tokens.next();
        }
    }
    filled
}

/// A value as SQL writes it: numbers, true, false and null as they are, anything else as text.
fn literal(value: &str) -> String {
    let is_number = value.parse::<f64>().is_ok_and(f64::is_finite) && !value.starts_with('+');
    let is_word = ["true", "false", "null"].iter().any(|word| value.eq_ignore_ascii_case(word));
    match value {
        // After a minus sign it would begin a comment.
        _ if is_number && value.starts_with('-') => format!("({value})"),
        _ if is_number || is_word => value.to_owned(),
        _ => format!("'{}'", value.replace('\'', "''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
-- Kernels of a name.
-- By samples.
-- $name: a part of the kernel's name
-- $top = 3: rows
SELECT kernel, '$top' FROM kernel_cost WHERE kernel LIKE $name LIMIT $top -- $top
";

    fn query() -> SavedQuery {
        SavedQuery::parse("mine", "q", TEXT, "q.sql".into()).unwrap()
    }

    fn set(name: &str, value: &str) -> (String, String) {
        (name.to_owned(), value.to_owned())
    }

    #[test]
    fn parameters_are_set_outside_texts_and_comments() {
        let filled = query().filled(&[set("name", "it's")]).unwrap();
        assert!(filled.contains("'$top'") && filled.contains("LIKE 'it''s' LIMIT 3 -- $top"), "{filled}");
        assert!(query().filled(&[set("name", "a"), set("top", "7")]).unwrap().contains("LIMIT 7"));
        assert_eq!((query().title.as_str(), query().doc.as_str()), ("Kernels of a name", "By samples."));
    }

    #[test]
    fn what_cannot_be_filled_is_said() {
        assert!(query().filled(&[]).unwrap_err().to_string().contains("needs a value for `name`: a part"));
        let unknown = query().filled(&[set("tpo", "1")]).unwrap_err().to_string();
        assert!(unknown.contains("no parameter `tpo`; hint: it has name, top"), "{unknown}");
    }

    #[test]
    fn what_is_not_described_is_a_flaw() {
        let flaw = SavedQuery::parse("mine", "q", "-- Q.\nSELECT\n$x", "q.sql".into()).unwrap_err();
        assert_eq!((flaw.line, flaw.rule), (3, LibraryRule::Parameter));
    }

    #[test]
    fn values_cannot_leave_their_place() {
        for value in ["1; DROP VIEW x", "' OR 1", "nan", "inf", "--", "+1"] {
            let literal = literal(value);
            assert_eq!(lexer::tokens(&literal).count(), 1, "{literal}");
            assert!(literal.starts_with('\'') && literal.ends_with('\''), "{literal}");
        }
        assert_eq!(
            (literal("-1.5"), literal("1e3"), literal("TRUE")),
            ("(-1.5)".into(), "1e3".into(), "TRUE".into())
        );
    }
}
