//! The words that a text of the recorder keeps where names are to go: those of the documentation of the tables.
//!
//! Reasons, roles and options are texts in these words, with names of kernels, operators and regions among them. A name
//! that is one of these words says nothing. Other words may be names, whatever their column holds by its description.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use regex::Regex;
use stallmap_schema::tables;

/// A word: letters, digits and underscores, beginning with a letter or an underscore.
static WORD: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"[\p{L}_][\p{L}\p{N}_]*").ok());

/// The words of all tables: in lower case, without underscores.
static KNOWN: LazyLock<BTreeSet<String>> = LazyLock::new(|| {
    let texts = tables::ALL.iter().flat_map(|table| {
        let columns = table.columns.iter();
        let own = columns.flat_map(|column| {
            let values = (column.words)().unwrap_or_default().into_iter();
            [column.name, column.doc].into_iter().chain(values)
        });
        own.chain([table.name, table.doc])
    });
    let words = texts.flat_map(|text| text.split(|char: char| !char.is_alphabetic()));
    words.filter(|word| !word.is_empty()).map(str::to_lowercase).collect()
});

/// The text with `-` in place of each word that is not known.
pub(super) fn in_known_words(text: &str) -> String {
    let Some(regex) = WORD.as_ref() else { return "-".to_owned() };
    let known =
        |found: &regex::Captures<'_>| if is_known(&found[0]) { found[0].to_owned() } else { "-".to_owned() };
    regex.replace_all(text, known).into_owned()
}

/// True for a word whose parts between underscores are known words, or numbers.
fn is_known(word: &str) -> bool {
    let mut parts = word.split('_').map(|part| part.trim_end_matches(|char: char| char.is_ascii_digit()));
    parts.all(|part| part.is_empty() || KNOWN.contains(&part.to_lowercase()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_words_of_the_documentation_stay() {
        for text in
            ["parameter", "optimizer_state", "function not launched in reference run", "12 of 3,000", "[1]"]
        {
            assert_eq!(in_known_words(text), text);
        }
        assert_eq!(in_known_words("kernel AcmeLayer_2 of acme::run"), "kernel - of -::run");
        assert_eq!(in_known_words("{\"kernels\":\"acmeÜ.*\"}"), "{\"kernels\":\"-.*\"}");
    }
}
