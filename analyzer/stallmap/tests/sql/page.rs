//! Pages of the book that are generated from declarations: views, functions, cookbook.
//!
//! `UPDATE=1 cargo test -p stallmap --test sql -- page` writes them. Their examples are run.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use arrow::datatypes::DataType;
use datafusion::config::Dialect;
use datafusion::logical_expr::Documentation;
use futures::executor::block_on;
use stallmap::library::{self, QueryRecipe, ViewDoc};
use stallmap::session::Session;
use stallmap::session::resources::SessionResources;
use stallmap_fleet::CaptureFleet;

use crate::{answer, open, sql_folder};

/// Compares a page with its generated text, or writes it.
#[track_caller]
fn check(name: &str, page: &str) {
    let path = sql_folder().join("../docs/src").join(name);
    if std::env::var_os("UPDATE").is_some() {
        fs::write(&path, page).unwrap();
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    let first = written.lines().zip(page.lines()).find(|(written, made)| written != made);
    assert!(written == page, "docs/src/{name} is stale: UPDATE=1 writes it. First difference: {first:?}");
}

/// Text in a table cell.
fn cell(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

const VIEWS: &str = "\
# Views

This page is generated from the files under `sql/`.
`UPDATE=1 cargo test -p stallmap --test sql -- page` writes it.
`stallmap info NAME.stallmap VIEW`, or `.doc VIEW` in the shell, shows the same text with the view's SQL.
";

#[test]
fn the_page_of_views_is_what_their_files_say() {
    let folder = tempfile::tempdir().unwrap();
    let session = open("tiny", folder.path());
    let mut page = VIEWS.to_owned();
    let mut package = "";
    for view in session.library().unwrap() {
        if view.package != package {
            package = &view.package;
            writeln!(page, "\n## {package}").unwrap();
        }
        view_page(&mut page, view, &session);
    }
    let fleet = fleet(&folder.path().join("fleet"));
    page += FLEET_VIEWS;
    for view in library::fleet_views().unwrap() {
        view_page(&mut page, view, &fleet.session);
    }
    check("reference/views.md", &page);
}

const COMPUTED: &str = "\
# Computed tables

No capture holds these tables. They are computed from those of [Tables](tables.md), each when a query needs it.
This page is generated from their declarations.
`UPDATE=1 cargo test -p stallmap --test sql -- page` writes it. `.doc TABLE` in the shell shows the same text.
";

#[test]
fn the_page_of_computed_tables_is_what_their_declarations_say() {
    let folder = tempfile::tempdir().unwrap();
    let mut page = COMPUTED.to_owned();
    for table in open("tiny", folder.path()).tables().into_iter().filter(|table| table.is_derived) {
        writeln!(page, "\n## {}\n\n{}\n", table.name, table.doc.trim()).unwrap();
        writeln!(page, "| column | type | meaning |\n|---|---|---|").unwrap();
        for (column, data_type, doc) in table.columns {
            writeln!(page, "| `{column}` | {} | {} |", data_type.to_lowercase(), cell(&doc)).unwrap();
        }
    }
    check("reference/computed.md", &page);
}

const FLEET_VIEWS: &str = "
## fleet

Views over all captures of `stallmap sql --over`. There, each table and view above begins with the columns of
[Many captures](../guide/fleet.md#columns).
";

/// A fleet of one capture.
fn fleet(folder: &Path) -> CaptureFleet {
    fs::create_dir(folder).unwrap();
    open("tiny", folder);
    stallmap_fleet::open(&[folder.into()], &SessionResources::NONE, |name, why| panic!("{name}: {why}"))
        .unwrap()
}

fn view_page(page: &mut String, view: &ViewDoc, session: &Session) {
    let ViewDoc { name, doc, .. } = view;
    writeln!(page, "\n### {name}\n\n{doc}\n").unwrap();
    let reads = reads(session, view);
    let list = reads.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    writeln!(page, "`{}` reads {list}.\n", view.source().display()).unwrap();
    writeln!(page, "| column | type | meaning |\n|---|---|---|").unwrap();
    let plan = block_on(session.plan(&format!("SELECT * FROM {name}"))).unwrap();
    for (column, field) in view.columns.iter().zip(plan.schema().fields()) {
        let data_type = type_name(field.data_type());
        writeln!(page, "| `{}` | {data_type} | {} |", column.name, cell(&column.doc)).unwrap();
    }
    writeln!(page, "\n```sql\n{}\n```", view.example()).unwrap();
}

/// The tables and views that a view reads.
fn reads(session: &Session, view: &ViewDoc) -> Vec<String> {
    let state = session.context().state();
    let statement = state.sql_to_statement(&view.sql, &Dialect::Generic).unwrap();
    let names = state.resolve_table_references(&statement).unwrap();
    let mut names: Vec<String> = names.into_iter().map(|name| name.table().to_owned()).collect();
    names.retain(|name| *name != view.name);
    names.sort();
    names
}

fn type_name(data_type: &DataType) -> String {
    match data_type {
        DataType::Dictionary(_, value) => type_name(value),
        DataType::Utf8 | DataType::Utf8View | DataType::LargeUtf8 => "text".to_owned(),
        DataType::List(item) => format!("list of {}", type_name(item.data_type())),
        other => other.to_string().to_lowercase(),
    }
}

#[tokio::test]
async fn examples_of_views_run_on_a_capture_and_without_rows() {
    let folder = tempfile::tempdir().unwrap();
    let (tiny, empty) = (open("tiny", folder.path()), Session::without_rows().unwrap());
    for view in tiny.library().unwrap() {
        for session in [&tiny, &empty] {
            let ran = answer(session, &view.example()).await;
            assert!(ran.is_ok(), "example of `{}`: {ran:?}", view.name);
        }
    }
    let fleet = fleet(&folder.path().join("fleet"));
    for view in library::fleet_views().unwrap() {
        let ran = answer(&fleet.session, &view.example()).await;
        assert!(ran.is_ok(), "example of `{}`: {ran:?}", view.name);
    }
}

const FUNCTIONS: &str = "\
# Functions

stallmap adds these functions to those of [DataFusion](https://datafusion.apache.org/user-guide/sql/).
This page is generated from their declarations.
`UPDATE=1 cargo test -p stallmap --test sql -- page` writes it.
In the shell, `.doc FUNCTION` documents these functions and those of DataFusion.
";

#[test]
fn the_page_of_functions_is_what_they_say() {
    let mut page = FUNCTIONS.to_owned();
    for (name, doc) in documented_functions() {
        function_page(&mut page, &name, &doc);
    }
    check("reference/functions.md", &page);
}

/// Every function with its documentation, by name.
fn documented_functions() -> BTreeMap<String, Documentation> {
    let (scalars, windows) = (stallmap_tables::functions::functions(), stallmap_tables::functions::windows());
    let scalars = scalars.iter().map(|one| (one.name(), one.documentation()));
    let windows = windows.iter().map(|one| (one.name(), one.documentation()));
    let all = scalars.chain(windows);
    all.map(|(name, doc)| (name.to_owned(), doc.expect("every function is documented").clone())).collect()
}

fn function_page(page: &mut String, name: &str, doc: &Documentation) {
    writeln!(page, "\n## {name}\n\n`{}`\n\n{}", doc.syntax_example, doc.description.trim()).unwrap();
    let arguments = doc.arguments.as_deref().unwrap_or_default();
    if !arguments.is_empty() {
        writeln!(page, "\n| argument | meaning |\n|---|---|").unwrap();
    }
    for (argument, meaning) in arguments {
        writeln!(page, "| `{argument}` | {} |", cell(meaning)).unwrap();
    }
    let example = doc.sql_example.as_deref().expect("every function has an example");
    writeln!(page, "\n```sql\n{}\n```", example.trim()).unwrap();
}

#[tokio::test]
async fn examples_of_functions_run() {
    let folder = tempfile::tempdir().unwrap();
    let session = open("tiny", folder.path());
    for (name, doc) in documented_functions() {
        let example = doc.sql_example.as_deref().expect("every function has an example");
        let ran = answer(&session, example).await;
        assert!(ran.is_ok(), "example of `{name}`: {ran:?}");
    }
}

const COOKBOOK: &str = "\
# Cookbook

Common questions, the SQL that answers each, and its result on a capture in `testdata`.
Each question is a file in `sql/cookbook/`. In the shell, `.examples` lists them and `.examples 3` runs the third one.
`UPDATE=1 cargo test -p stallmap --test sql -- page` writes the results below.
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_cookbook_has_the_answers_of_its_captures() {
    let mut page = COOKBOOK.to_owned() + "\n";
    for recipe in library::cookbook() {
        writeln!(page, "{}. [{}](#{})", recipe.number, recipe.question(), anchor(&recipe)).unwrap();
    }
    let mut sessions = BTreeMap::new();
    for recipe in library::cookbook() {
        let captures = recipe.capture().expect("each names its capture");
        let session = sessions.entry(captures).or_insert_with(|| open_named(captures));
        recipe_page(&mut page, &recipe, captures, session).await;
    }
    check("cookbook.md", &page);
}

fn anchor(recipe: &QueryRecipe) -> String {
    let text = format!("{}. {}", recipe.number, recipe.question()).to_lowercase();
    let allowed = text.chars().filter(|char| char.is_alphanumeric() || [' ', '-', '_'].contains(char));
    allowed.map(|char| if char == ' ' { '-' } else { char }).collect()
}

async fn recipe_page(page: &mut String, recipe: &QueryRecipe, captures: &str, session: &Session) {
    let doc = recipe.doc().collect::<Vec<_>>().join("\n");
    writeln!(
        page,
        "\n## {}. {}\n\n{doc}\n\n```sql\n{}\n```\n",
        recipe.number,
        recipe.question(),
        recipe.sql()
    )
    .unwrap();
    let frame = session.sql(recipe.sql()).await.unwrap();
    let columns: Vec<String> = frame.schema().fields().iter().map(|field| field.name().clone()).collect();
    let rows = answer(session, recipe.sql()).await.unwrap();
    assert!(!rows.is_empty(), "{} has rows", recipe.name());
    let of = captures
        .split(' ')
        .map(|name| format!("`testdata/{}.stallmap`", path_of(name).0))
        .collect::<Vec<_>>();
    writeln!(page, "On {}:\n\n| {} |", of.join(" and "), columns.join(" | ")).unwrap();
    writeln!(page, "|{}", "---|".repeat(columns.len())).unwrap();
    for row in rows {
        writeln!(page, "| {} |", row.replace("NULL", "")).unwrap();
    }
}

/// The name and the path of a bundled capture, as a recipe names it: `NAME` or `schema=NAME`.
fn path_of(capture: &str) -> (&str, Option<String>, PathBuf) {
    let (schema, name) =
        capture.split_once('=').map_or((None, capture), |(schema, name)| (Some(schema), name));
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata");
    (name, schema.map(str::to_owned), folder.join(format!("{name}.stallmap")))
}

fn open_named(captures: &str) -> Session {
    let named: Vec<_> = captures.split(' ').map(|name| (path_of(name).1, path_of(name).2)).collect();
    Session::open(&named).unwrap()
}

#[tokio::test]
async fn recipes_run_on_captures_without_rows() {
    let empty = Session::without_rows().unwrap();
    for recipe in library::cookbook() {
        if recipe.needs().is_empty() {
            let ran = answer(&empty, recipe.sql()).await;
            assert!(ran.is_ok(), "{}: {ran:?}", recipe.name());
        }
    }
}
