//! Runs the statements of comparisons: first the views that they read, then their tables, then the queries.

use std::collections::BTreeSet;

use arrow::array::RecordBatch;
use stallmap::session::Session;
use stallmap_console::exit::Outcome;
use stallmap_console::explain::explain;

use super::query::QueryScript;

/// Creates the missing tables of a statement, and runs it.
pub(super) async fn ask(session: &Session, script: &QueryScript) -> Outcome<Vec<RecordBatch>> {
    Ok(ask_all(session, &[script]).await?.into_iter().flatten().collect())
}

/// Computes the views of statements, creates their missing tables, and runs them: each step of all at the same time.
pub(super) async fn ask_all(session: &Session, scripts: &[&QueryScript]) -> Outcome<Vec<Vec<RecordBatch>>> {
    let texts: Vec<String> = scripts.iter().map(|script| script.text()).collect();
    let mut found: Vec<_> = texts.iter().map(|text| session.remembered_script(text)).collect();
    let new: Vec<usize> = (0..scripts.len()).filter(|&at| found[at].is_none()).collect();
    let new_scripts: Vec<&QueryScript> = new.iter().map(|&at| scripts[at]).collect();
    keep_views(session, &new_scripts).await?;
    let tables = new_scripts.iter().filter_map(|script| script.tables.split_last());
    // The last table of a statement reads those before it.
    let (last, first): (Vec<&String>, Vec<&[String]>) = tables.unzip();
    create(session, first.into_iter().flatten()).await?;
    create(session, last).await?;
    let queries: Vec<&str> = new_scripts.iter().map(|script| script.query.as_str()).collect();
    for (at, rows) in new.into_iter().zip(run(session, &queries).await?) {
        session.remember_script(&texts[at], &rows);
        found[at] = Some(rows);
    }
    Ok(found.into_iter().flatten().collect())
}

/// Computes the views of statements.
pub(super) async fn keep_views(session: &Session, scripts: &[&QueryScript]) -> Outcome<()> {
    let texts = scripts.iter().flat_map(|script| script.tables.iter().chain([&script.query]));
    let texts: BTreeSet<&str> = texts.map(String::as_str).collect();
    let texts: Vec<&str> = texts.into_iter().collect();
    session.keep_views_of(&texts).await.map_err(|error| explain(error, Some(session)))
}

/// Creates the tables that are missing.
async fn create(session: &Session, tables: impl IntoIterator<Item = &String>) -> Outcome<()> {
    let is_missing = |table: &&str| {
        let name = table.split_whitespace().nth(2).unwrap_or_default();
        !session.context().table_exist(name).unwrap_or(false)
    };
    let tables: BTreeSet<&str> = tables.into_iter().map(String::as_str).filter(is_missing).collect();
    let tables: Vec<&str> = tables.into_iter().collect();
    run(session, &tables).await.map(drop)
}

async fn run(session: &Session, statements: &[&str]) -> Outcome<Vec<Vec<RecordBatch>>> {
    session.rows_of_all(statements).await.map_err(|error| explain(error, Some(session)))
}
