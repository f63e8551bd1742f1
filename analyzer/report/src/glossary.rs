//! Meanings of terms, for tooltips and legends: the glossary of the book.

/// The book's page. Its tables have rows such as `| **sector** | 32 bytes ... |`.
const TEXT: &str = include_str!("../../../docs/src/concepts/glossary.md");

/// The meaning of a term, such as a stall reason or a confidence. None if the glossary lacks it.
pub(crate) fn meaning(term: &str) -> Option<&'static str> {
    TEXT.lines().find_map(|line| {
        let (name, meaning) = line.strip_prefix("| **")?.strip_suffix(" |")?.split_once("** | ")?;
        (name.trim_matches('`') == term).then_some(meaning)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reason::REASONS;

    #[test]
    fn every_reason_with_a_colour_has_a_meaning() {
        for reason in REASONS.concat().iter().chain(&["exact", "refined", "latency", "sector", "request"]) {
            assert!(meaning(reason).is_some(), "{reason}");
        }
        assert_eq!(meaning("no such term"), None);
    }
}
