//! The SQL library: one file a view, embedded when the program is built.
//!
//! Adding a view touches no Rust: `sql/<package>/<view>.sql` holds one `CREATE VIEW <view> (columns) AS SELECT ...`,
//! with a comment above it and above each column. The order in which views are defined follows from what they read.

pub mod doc;

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use datafusion::catalog::SchemaProvider;
use datafusion::catalog::view::ViewTable;
use datafusion::common::config::Dialect;
use datafusion::error::DataFusionError;
use datafusion::execution::SessionState;
use datafusion::logical_expr::{DdlStatement, LogicalPlan};
use futures::executor::block_on;

use crate::error::AnalyzeError;

include!(concat!(env!("OUT_DIR"), "/library.rs"));

/// A view of the library, as its file says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewDoc {
    /// Name in SQL.
    pub name: String,
    /// The folder in `sql/`.
    pub package: String,
    /// What one row is, and how it is made.
    pub doc: String,
    /// Each column with its meaning, in order.
    pub columns: Vec<ColumnDoc>,
    /// The file's text: one CREATE VIEW.
    pub sql: String,
}

/// A column of a view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnDoc {
    /// Name in SQL.
    pub name: String,
    /// What it means.
    pub doc: String,
}

/// Every view, sorted by package and name.
pub fn views() -> Result<&'static [ViewDoc], AnalyzeError> {
    static VIEWS: OnceLock<Result<Vec<ViewDoc>, (String, String)>> = OnceLock::new();
    let views = VIEWS.get_or_init(|| {
        FILES
            .iter()
            .filter(|(package, ..)| !QUERIES.contains(package))
            .map(|&(package, name, text)| {
                doc::parse(package, name, text).map_err(|reason| (name.to_owned(), reason))
            })
            .collect()
    });
    match views {
        Ok(views) => Ok(views),
        Err((view, reason)) => Err(AnalyzeError::View { view: view.clone(), reason: reason.clone() }),
    }
}

/// The folders that hold no views, but queries: sorted and limited, for people.
pub const QUERIES: [&str; 7] = ["draw", "export", "page", "report", "source", "top", "tree"];

/// The queries of one of those folders, as (name, text).
pub fn queries(package: &str) -> impl Iterator<Item = (&'static str, &'static str)> {
    FILES.iter().filter(move |(folder, ..)| *folder == package).map(|&(_, name, text)| (name, text))
}

/// Defines every view in a schema; `state` resolves unqualified names to the same schema.
///
/// A view is defined after those that it reads, which its own text tells.
pub(crate) fn register(state: &SessionState, schema: &dyn SchemaProvider) -> Result<(), AnalyzeError> {
    for view in in_order(state)? {
        let wrong = |error: DataFusionError| AnalyzeError::View {
            view: view.name.clone(),
            reason: error.strip_backtrace(),
        };
        // Tables in memory never make a plan wait.
        let plan = block_on(state.create_logical_plan(&view.sql)).map_err(wrong)?;
        let LogicalPlan::Ddl(DdlStatement::CreateView(create)) = plan else {
            return Err(wrong(DataFusionError::Plan("it is no CREATE VIEW".into())));
        };
        let table = ViewTable::new(create.input.as_ref().clone(), Some(view.sql.clone()));
        schema.register_table(view.name.clone(), Arc::new(table)).map_err(wrong)?;
    }
    Ok(())
}

/// The views, each after those that it reads.
fn in_order(state: &SessionState) -> Result<Vec<&'static ViewDoc>, AnalyzeError> {
    let mut waiting = Vec::new();
    for view in views()? {
        let reads = reads(state, view).map_err(|error| AnalyzeError::View {
            view: view.name.clone(),
            reason: error.strip_backtrace(),
        })?;
        waiting.push((view, reads));
    }
    let mut ordered = Vec::new();
    while !waiting.is_empty() {
        let names: BTreeSet<String> = waiting.iter().map(|(view, _)| view.name.clone()).collect();
        let (ready, rest): (Vec<_>, Vec<_>) =
            waiting.into_iter().partition(|(_, reads)| reads.is_disjoint(&names));
        if let (true, Some((view, reads))) = (ready.is_empty(), rest.first()) {
            let reason = format!("it reads itself by way of {reads:?}");
            return Err(AnalyzeError::View { view: view.name.clone(), reason });
        }
        ordered.extend(ready.into_iter().map(|(view, _)| view));
        waiting = rest;
    }
    Ok(ordered)
}

/// The names that a view's text reads.
fn reads(state: &SessionState, view: &ViewDoc) -> Result<BTreeSet<String>, DataFusionError> {
    let statement = state.sql_to_statement(&view.sql, &Dialect::Generic)?;
    let names = state.resolve_table_references(&statement)?;
    Ok(names.into_iter().map(|name| name.table().to_owned()).filter(|name| *name != view.name).collect())
}
