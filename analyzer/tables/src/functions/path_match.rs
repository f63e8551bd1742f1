//! `path_match(names, pattern)`: true if a call path matches a pattern with wildcards.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, ListArray};
use arrow::datatypes::DataType;
use datafusion::error::{DataFusionError, Result};
use regex::Regex;

use super::column_function::{ColumnFunction, doc, exact, list_of};

/// The function.
pub(super) fn function() -> ColumnFunction {
    let description = "True if a path of names matches the pattern, from its first name to its last. A pattern consists of \
         steps separated by ->: . is one name, * any number of names, + one or more, /text/ a name that matches the \
         regular expression, any other text a name that contains it.";
    let example =
        "SELECT * FROM call_path WHERE path_match(names, '* -> Attention.forward -> * -> aten:: -> .')";
    ColumnFunction {
        name: "path_match",
        signature: exact([list_of(DataType::Utf8), DataType::Utf8]),
        returns: DataType::Boolean,
        doc: doc(description, "path_match(names, pattern)")
            .with_argument("names", "The names of the path, callers first, as in call_path.")
            .with_argument("pattern", "The pattern, such as '* -> aten::add -> *'.")
            .with_sql_example(example)
            .build(),
        compute,
    }
}

fn compute(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let (paths, patterns) = (columns[0].as_list::<i32>(), columns[1].as_string::<i32>());
    let mut matches = Vec::with_capacity(paths.len());
    // Nearly always one pattern applies to all rows.
    let mut last: Option<(&str, PathPattern)> = None;
    for row in 0..paths.len() {
        if paths.is_null(row) || patterns.is_null(row) {
            matches.push(None);
            continue;
        }
        let text = patterns.value(row);
        if last.as_ref().is_none_or(|(known, _)| *known != text) {
            last = Some((text, PathPattern::parse(text)?));
        }
        matches.push(last.as_ref().map(|(_, pattern)| pattern.is_match(&names(paths, row))));
    }
    Ok(Arc::new(BooleanArray::from(matches)))
}

fn names(paths: &ListArray, row: usize) -> Vec<String> {
    paths.value(row).as_string::<i32>().iter().map(|name| name.unwrap_or_default().to_owned()).collect()
}

/// The steps of a pattern.
#[derive(Debug)]
struct PathPattern(Vec<PatternStep>);

/// Meaning of one step of a pattern.
#[derive(Debug)]
enum PatternStep {
    /// Any one name.
    One,
    /// Any number of names.
    Any,
    /// One name that contains a text.
    Text(String),
    /// One name that a regular expression is found in.
    Regex(Regex),
}

impl PathPattern {
    fn parse(text: &str) -> Result<Self> {
        let mut steps = Vec::new();
        for word in text.split("->").map(str::trim) {
            match word {
                "." => steps.push(PatternStep::One),
                "*" => steps.push(PatternStep::Any),
                "+" => steps.extend([PatternStep::One, PatternStep::Any]),
                "" => return Err(wrong(text, "a step is empty: * is any number of names")),
                _ => steps.push(PatternStep::named(text, word)?),
            }
        }
        Ok(Self(steps))
    }

    /// True if the complete path matches. Time is steps times names, for any input.
    fn is_match(&self, names: &[String]) -> bool {
        // reached[n]: the steps so far match the first n names.
        let mut reached = vec![false; names.len() + 1];
        reached[0] = true;
        for step in &self.0 {
            let mut next = vec![false; names.len() + 1];
            next[0] = matches!(step, PatternStep::Any) && reached[0];
            for (index, name) in names.iter().enumerate() {
                next[index + 1] = match step {
                    PatternStep::Any => reached[index + 1] || next[index],
                    step => reached[index] && step.is_name(name),
                };
            }
            reached = next;
        }
        reached.last().copied().unwrap_or_default()
    }
}

impl PatternStep {
    fn named(pattern: &str, word: &str) -> Result<Self> {
        let Some(regex) = word.strip_prefix('/').and_then(|rest| rest.strip_suffix('/')) else {
            return Ok(Self::Text(word.to_owned()));
        };
        Regex::new(regex).map(Self::Regex).map_err(|error| wrong(pattern, &error.to_string()))
    }

    fn is_name(&self, name: &str) -> bool {
        match self {
            Self::One | Self::Any => true,
            Self::Text(text) => name.contains(text.as_str()),
            Self::Regex(regex) => regex.is_match(name),
        }
    }
}

fn wrong(pattern: &str, reason: &str) -> DataFusionError {
    DataFusionError::Execution(format!("the pattern `{pattern}` of path_match is wrong: {reason}"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn matches(pattern: &str, path: &str) -> bool {
        let names: Vec<String> = path.split(' ').filter(|name| !name.is_empty()).map(str::to_owned).collect();
        PathPattern::parse(pattern).is_ok_and(|pattern| pattern.is_match(&names))
    }

    #[test]
    fn wildcards_mean_what_they_mean_in_hatchet() {
        assert!(matches(". -> . -> .", "main step add"));
        assert!(!matches(". -> .", "main step add"));
        assert!(matches("*", "") && matches("*", "main step add"));
        assert!(!matches("+", "") && matches("+", "main") && matches("+", "main step add"));
        assert!(matches("main -> * -> add", "main add") && matches("main -> * -> add", "main a b add"));
        assert!(!matches("main -> + -> add", "main add") && matches("main -> + -> add", "main a add"));
        assert!(matches("* -> ste -> *", "main step add") && !matches("* -> ste", "main step add"));
        assert!(matches("* -> /^a.d$/", "main step add") && !matches("* -> /^a$/", "main step add"));
    }

    #[test]
    fn a_wrong_pattern_says_what_is_wrong() {
        for pattern in ["", "a -> -> b", "/(/"] {
            let error = PathPattern::parse(pattern).map(|_| ()).unwrap_err().to_string();
            assert!(error.contains(&format!("`{pattern}`")), "{error}");
        }
    }

    /// The same by trying every split: slow, and plainly right.
    fn is_match_slowly(steps: &[PatternStep], names: &[String]) -> bool {
        match (steps.split_first(), names.split_first()) {
            (None, rest) => rest.is_none(),
            (Some((PatternStep::Any, others)), rest) => {
                is_match_slowly(others, names) || rest.is_some_and(|(_, names)| is_match_slowly(steps, names))
            }
            (Some(_), None) => false,
            (Some((step, others)), Some((name, rest))) => step.is_name(name) && is_match_slowly(others, rest),
        }
    }

    proptest! {
        #[test]
        fn matching_agrees_with_trying_every_split(
            words in prop::collection::vec(prop::sample::select(vec![".", "*", "+", "a", "b"]), 1..6),
            names in prop::collection::vec(prop::sample::select(vec!["a", "b", "ab"]), 0..7),
        ) {
            let names: Vec<String> = names.into_iter().map(str::to_owned).collect();
            let pattern = PathPattern::parse(&words.join(" -> ")).map_err(|error| TestCaseError::fail(error.to_string()))?;
            prop_assert_eq!(pattern.is_match(&names), is_match_slowly(&pattern.0, &names));
        }
    }
}
