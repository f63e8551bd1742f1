//! Views whose rows a capture may bring along: numbers, ids and names, no sentences.
//!
//! The sender of a capture can write any row into it. Rows of numbers and names claim no more than recorded tables with other
//! numbers and names could. A sentence or an advice could claim anything, as if this release had found it. So views with
//! such columns are computed by each reader, from the stored rows of the views below them.

use std::collections::{BTreeMap, BTreeSet};

use crate::lexer::{self, TokenKind};
use crate::library::ViewDoc;

/// Columns with sentences, parts of sentences, or statements to run.
const PROSE: [&str; 11] = [
    "advice",
    "detail",
    "explanation",
    "fact",
    "item",
    "layer_missing",
    "line_missing",
    "op_missing",
    "query",
    "sentence",
    "subject",
];

/// True if a view has no column of prose.
pub(super) fn is_plain(view: &ViewDoc) -> bool {
    !view.columns.iter().any(|column| PROSE.contains(&column.name.as_str()))
}

/// The plain views that queries read, each with the number of its readers. Of a view that is not plain, they are the views
/// that it reads.
pub(super) fn plain_views<'a>(
    library: &'a [ViewDoc],
    queries: impl Iterator<Item = &'a str>,
) -> BTreeMap<&'a str, usize> {
    let mut plain = BTreeMap::new();
    let mut seen = BTreeSet::new();
    let mut waiting: Vec<&str> = queries.flat_map(sources).collect();
    while let Some(name) = waiting.pop() {
        let Some(view) = library.iter().find(|view| view.name == name) else { continue };
        if is_plain(view) {
            *plain.entry(view.name.as_str()).or_default() += 1;
        } else if seen.insert(view.name.as_str()) {
            waiting.extend(sources(&view.sql));
        }
    }
    plain
}

/// The names after FROM and JOIN in a statement: tables, views, and its own subqueries.
pub(super) fn sources(sql: &str) -> BTreeSet<&str> {
    let words = || lexer::tokens(sql).filter(|token| token.kind == TokenKind::Word).map(|token| token.text);
    let is_source = |before: &str| ["FROM", "JOIN"].iter().any(|word| before.eq_ignore_ascii_case(word));
    words().zip(words().skip(1)).filter(|(before, _)| is_source(before)).map(|(_, name)| name).collect()
}

#[cfg(test)]
mod tests {
    use arrow::array::AsArray as _;
    use arrow::compute::cast;
    use arrow::datatypes::DataType;

    use super::*;
    use crate::library;
    use crate::session::Session;

    #[test]
    fn sentences_are_computed_from_views_without_them() {
        let views = library::views().unwrap();
        let queries = [
            "SELECT * FROM finding f JOIN kernel_cost k ON true -- FROM sample",
            "SELECT 1 FROM kernel_cost",
        ];
        let plain = plain_views(views, queries.into_iter());
        assert!(plain["kernel_cost"] == 2 && plain["access_cost"] > 1, "{plain:?}");
        assert!(!plain.keys().any(|name| name.starts_with("finding") || *name == "sample"), "{plain:?}");
    }

    /// Words in small letters, one after the other, that only a sentence has.
    const WORDS: usize = 5;

    #[tokio::test]
    async fn no_text_of_a_plain_view_is_a_sentence() {
        let is_word = |word: &str| !word.is_empty() && word.chars().all(|c| c.is_ascii_lowercase());
        for capture in ["inference_views", "finding_truth", "two_ranks"] {
            let path = format!("{}/../../testdata/{capture}.stallmap", env!("CARGO_MANIFEST_DIR"));
            let session = Session::open(&[(None, path.into())]).unwrap();
            let views = library::views().unwrap();
            let queries = library::queries::ALL.iter().filter(|(_, query)| query.is_whole());
            for view in plain_views(views, queries.map(|(_, query)| query.text())).into_keys() {
                for batch in
                    session.sql(&format!("SELECT * FROM {view}")).await.unwrap().collect().await.unwrap()
                {
                    for (column, field) in batch.columns().iter().zip(batch.schema().fields()) {
                        if !matches!(field.data_type(), DataType::Utf8 | DataType::Utf8View) {
                            continue;
                        }
                        let texts = cast(column, &DataType::Utf8).unwrap();
                        for text in texts.as_string::<i32>().iter().flatten() {
                            let words: Vec<&str> = text.split(' ').collect();
                            let is_prose =
                                words.windows(WORDS).any(|words| words.iter().all(|word| is_word(word)));
                            assert!(!is_prose, "{capture}: {view}.{}: {text}", field.name());
                        }
                    }
                }
            }
        }
    }
}
