//! `docs/src/reference/tables.md` equals the declarations: `UPDATE=1 cargo test -p stallmap-schema` writes it.

use std::fmt::Write as _;
use std::path::Path;

use arrow::datatypes::DataType;
use stallmap_schema::table::{ColumnDef, TableDef};
use stallmap_schema::tables;

const HEAD: &str = "\
# Tables

This page is generated from the declarations in `schema/src/tables/`.
`UPDATE=1 cargo test -p stallmap-schema` writes it.
[Capture format](format.md) describes the file that holds the tables.

Columns that end with `_ns` hold nanoseconds since the Unix epoch. Columns that end with `_bytes` hold bytes.
*key*: the columns that identify a row. *order*: the sort order of rows. `→`: the column that a value refers to.
";

#[test]
fn the_page_is_what_the_declarations_say() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/src/reference/tables.md");
    let page = page();
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(written == page, "tables.md is stale; `UPDATE=1 cargo test -p stallmap-schema` writes it");
}

fn page() -> String {
    let mut page = HEAD.to_owned();
    for table in tables::ALL {
        write_table(&mut page, table);
    }
    page
}

fn write_table(page: &mut String, table: &TableDef) {
    let list = |columns: &[&str]| {
        let quoted: Vec<_> = columns.iter().map(|column| format!("`{column}`")).collect();
        if quoted.is_empty() { "none".to_owned() } else { quoted.join(", ") }
    };
    writeln!(page, "\n## {}\n\n{}\n", table.name, table.doc.trim()).unwrap();
    writeln!(page, "*key*: {}. *order*: {}.\n", list(table.key), list(table.sort)).unwrap();
    writeln!(page, "| column | type | meaning |\n|---|---|---|").unwrap();
    for column in table.columns {
        writeln!(page, "| `{}` | {} | {} |", column.name, type_name(column), meaning(column)).unwrap();
    }
}

fn meaning(column: &ColumnDef) -> String {
    let doc = column.doc.split_whitespace().collect::<Vec<_>>().join(" ");
    let reference = column.reference.map(|(table, column)| format!(" → `{table}.{column}`"));
    doc.replace('|', "\\|") + &reference.unwrap_or_default()
}

fn type_name(column: &ColumnDef) -> String {
    let name = match (column.data_type)() {
        DataType::Dictionary(..) => "word".to_owned(),
        DataType::Utf8 => "text".to_owned(),
        DataType::List(item) => format!("list of {}", item.data_type().to_string().to_lowercase()),
        other => other.to_string().to_lowercase(),
    };
    if column.nullable { name + ", or null" } else { name }
}
