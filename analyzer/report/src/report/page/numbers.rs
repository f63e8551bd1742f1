//! The numbers of a drawing as a table: columns in the page's data, from which the script makes the table. As markup they
//! would take several times the bytes, behind a part that is closed.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::table::PageTable;
use stallmap_console::output::html::HtmlPage;
use stallmap_console::output::value;

/// The place of a table, by its name in the data.
pub(super) fn place(html: &mut HtmlPage, name: &'static str, caption: &'static str) {
    html.markup("<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"").text(caption);
    html.markup("\" data-table=\"").markup(name);
    html.markup(
        "\"><noscript><p class=\"dim\">The page's script makes this table. The query below has its rows.",
    );
    html.markup("</p></noscript></div>\n");
}

/// The columns of a table: each a list of texts, or of places in a list of those that repeat.
pub(super) fn columns(picture: &PageTable<'_>) -> Value {
    let columns: Vec<Value> = picture
        .ordered()
        .map(|column| {
            let is_name = column.name == picture.layout.name;
            let mut made = texts(&column.texts);
            made["name"] = value::header(&column.name).into();
            if column.is_number {
                made["is_number"] = true.into();
            }
            if is_name {
                made["is_name"] = true.into();
                made["links"] = links(picture, &column.texts);
            }
            made
        })
        .collect();
    json!({ "caption": picture.layout.caption, "columns": columns })
}

fn texts(texts: &[String]) -> Value {
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    let mut words: Vec<&str> = Vec::new();
    let at: Vec<usize> = texts
        .iter()
        .map(|text| {
            *places.entry(text).or_insert_with(|| {
                words.push(text);
                words.len() - 1
            })
        })
        .collect();
    if words.len() * 2 > texts.len() {
        json!({ "words": texts })
    } else {
        json!({ "words": words, "at": at })
    }
}

/// The anchors of names.
fn links(picture: &PageTable<'_>, names: &[String]) -> Value {
    let anchors = names.iter().enumerate().filter_map(|(row, name)| {
        let function = picture.functions.get(row).copied().flatten()?;
        Some((name.clone(), picture.links.kernel(function)?.into()))
    });
    Value::Object(anchors.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_texts_are_there_once() {
        let list = |words: &[&str]| texts(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
        assert_eq!(list(&["b", "a", "b", "b"]), json!({ "words": ["b", "a"], "at": [0, 1, 0, 0] }));
        assert_eq!(list(&["b", "a", "b"]), json!({ "words": ["b", "a", "b"] }));
    }
}
