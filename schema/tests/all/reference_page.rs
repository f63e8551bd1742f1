//! `schema/README.md` says what the declarations say: `UPDATE=1 cargo test -p stallmap-schema` writes it.

use std::fmt::Write as _;
use std::path::Path;

use arrow::datatypes::DataType;
use stallmap_schema::table::{ColumnDef, TableDef};
use stallmap_schema::tables;

const HEAD: &str = "\
# Tables of a capture

This page is made from the declarations in `src/tables/`; `UPDATE=1 cargo test -p stallmap-schema` writes it.

A capture is a ZIP file with stored entries, or the same tree as a folder (`stallmap unpack`):
`manifest.json`, `tables/<table>.parquet`, `cubins/<hash>.cubin.zst`.
Any tool that reads Parquet reads the tables.
Every table is present, empty or not; a reader takes unknown tables and columns as additions of a later version.

Columns that end with `_ns` are nanoseconds since the Unix epoch, those with `_bytes` are bytes.
*key*: the columns that identify a row. *order*: how rows are sorted. `→` names the column that a value refers to.

`kernel_id` is one launch; `function_id` is a kernel's code.
`kernel_id`, `op_id`, `storage_id`, `tensor_id`, `allocation_id` and `content_id` count in the order of the program: the launches of the first run are 0, 1, 2, ..., everything else begins with 1, and later runs count on.
`function_id`, `module_id`, `frame_id` and columns that end with `_hash` are hashes. `stallmap sql` shows them in hexadecimal, and takes such text back: `WHERE function_id = '0x1a2b3c4d5e6f7a8b'`.
Format 2.0 has these numbers. Captures of format 1 are renumbered while they are read, and `stallmap pack OLD NEW` writes one in the present format.
";

#[test]
fn the_page_is_what_the_declarations_say() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md");
    let page = page();
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(written == page, "schema/README.md is stale; `UPDATE=1 cargo test -p stallmap-schema` writes it");
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
