//! Tables, views, columns, functions and recipes, by a search.

use serde_json::{Value, json};
use stallmap::library::cookbook;
use stallmap::session::Session;
use stallmap_console::exit::Outcome;
use stallmap_console::explain::explain;

use crate::mcp::answer::CappedRows;

/// Entries that hold every word of a search, best first: in the name, then in the description.
pub(crate) fn search(session: &Session, wanted: &str) -> Outcome<CappedRows> {
    let words: Vec<String> = wanted.split_whitespace().map(str::to_lowercase).collect();
    let mut found: Vec<(usize, Value)> = Vec::new();
    let mut add = |name: &str, text: &str, entry: Value| {
        let (name, text) = (name.to_lowercase(), text.to_lowercase());
        if words.iter().all(|word| name.contains(word) || text.contains(word)) {
            let missing = words.iter().filter(|word| !name.contains(*word)).count();
            found.push((missing, entry));
        }
    };
    for view in session.library().map_err(|error| explain(error, Some(session)))? {
        let columns: Vec<Value> =
            view.columns.iter().map(|column| json!({ "name": column.name, "doc": column.doc })).collect();
        let texts: Vec<&str> =
            view.columns.iter().flat_map(|column| [column.name.as_str(), &column.doc]).collect();
        let entry = json!({
            "kind": "view", "name": view.name, "doc": view.doc, "columns": columns, "example": view.example(),
        });
        add(&view.name, &format!("{} {}", view.doc, texts.join(" ")), entry);
    }
    for table in session.tables() {
        let columns: Vec<Value> = table
            .columns
            .iter()
            .map(|(name, kind, doc)| json!({ "name": name, "type": kind, "doc": doc }))
            .collect();
        let texts: Vec<&str> = table.columns.iter().flat_map(|(name, _, doc)| [name.as_str(), doc]).collect();
        let rows = (!table.is_derived).then_some(table.rows);
        let entry = json!({ "kind": "table", "name": table.name, "doc": table.doc, "columns": columns, "rows": rows });
        add(&table.name, &format!("{} {}", table.doc, texts.join(" ")), entry);
    }
    for function in stallmap_tables::functions::functions() {
        let doc = function.documentation().map(|doc| doc.description.clone()).unwrap_or_default();
        add(function.name(), &doc, json!({ "kind": "function", "name": function.name(), "doc": doc }));
    }
    for recipe in cookbook() {
        let doc = recipe.doc().collect::<Vec<_>>().join(" ");
        let entry = json!({ "kind": "recipe", "name": recipe.name(), "question": recipe.question(), "query": recipe.sql() });
        add(recipe.name(), &format!("{} {doc}", recipe.question()), entry);
    }
    found.sort_by_key(|(missing, _)| *missing);
    let mut rows = CappedRows::default();
    for (_, entry) in found {
        rows.push(entry);
    }
    Ok(rows)
}
