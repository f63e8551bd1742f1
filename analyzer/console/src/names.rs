//! Every SQL name of a session: for completion and for "did you mean".

use std::collections::{BTreeMap, BTreeSet};

use datafusion::execution::FunctionRegistry;
use futures::executor::block_on;
use stallmap::error::AnalyzeError;
use stallmap::library;
use stallmap::session::Session;

/// Longer names are not compared: the time and memory of that grow with both lengths.
const MAX_NAME_BYTES: usize = 256;
/// Names that are compared. A statement can have a million columns.
const MAX_CANDIDATES: usize = 10_000;

/// The names of a session.
#[derive(Clone, Debug, Default)]
pub struct SessionNames {
    /// Schemas: captures, and the one of them all. Of a fleet, its own.
    pub captures: Vec<String>,
    /// Columns by table.
    pub tables: BTreeMap<String, Vec<String>>,
    /// Columns by view: built-in, the user's, or created in the session.
    pub views: BTreeMap<String, Vec<String>>,
    /// Functions.
    pub functions: BTreeSet<String>,
    /// Saved queries.
    pub queries: Vec<String>,
    /// Signatures of functions, by name.
    pub signatures: BTreeMap<String, String>,
}

impl SessionNames {
    /// The names of an open session.
    pub fn from_session(session: &Session) -> Result<Self, AnalyzeError> {
        let context = session.context();
        let mut functions: BTreeSet<String> = context.udfs().into_iter().collect();
        functions.extend(context.udafs());
        functions.extend(context.udwfs());
        let tables = session.tables().into_iter();
        let tables =
            tables.map(|table| (table.name, table.columns.into_iter().map(|column| column.0).collect()));
        let views = session.library()?.iter();
        let views = views
            .map(|view| (view.name.clone(), view.columns.iter().map(|column| column.name.clone()).collect()));
        let mut views: BTreeMap<String, Vec<String>> = views.collect();
        views.extend(made(session));
        Ok(Self {
            captures: session.schema_names().into_iter().map(str::to_owned).collect(),
            tables: tables.collect(),
            views,
            functions,
            signatures: signatures(session),
            queries: session.queries().iter().map(|query| query.name.clone()).collect(),
        })
    }

    /// Tables and views.
    pub fn relations(&self) -> impl Iterator<Item = &str> {
        self.tables.keys().chain(self.views.keys()).map(String::as_str)
    }

    /// Signature of a function, if documented.
    pub fn signature(&self, function: &str) -> Option<&str> {
        self.signatures.get(function).map(String::as_str)
    }

    /// The columns of a table or view.
    pub fn columns(&self, relation: &str) -> &[String] {
        self.tables.get(relation).or_else(|| self.views.get(relation)).map_or(&[], Vec::as_slice)
    }
}

/// Tables and views created in this session, with their columns.
fn made(session: &Session) -> Vec<(String, Vec<String>)> {
    let context = session.context();
    let mut catalogs = context.catalog_names().into_iter().filter_map(|name| context.catalog(&name));
    let schemas = session.schema_names();
    let first = schemas.first().copied().unwrap_or_default();
    let Some(schema) = catalogs.find_map(|catalog| catalog.schema(first)) else {
        return Vec::new();
    };
    let known: BTreeSet<String> = session.tables().into_iter().map(|table| table.name).collect();
    let is_view =
        |name: &String| session.library().is_ok_and(|views| views.iter().any(|view| view.name == *name));
    let names = schema.table_names().into_iter().filter(|name| !known.contains(name) && !is_view(name));
    // In-memory tables never block.
    let columns = |name: &str| {
        block_on(schema.table(name))
            .ok()
            .flatten()
            .map(|table| table.schema().fields().iter().map(|field| field.name().clone()).collect())
    };
    names
        .filter_map(|name| {
            let columns = columns(&name)?;
            Some((name, columns))
        })
        .collect()
}

/// The command that reads a view over many captures, for those who name it in one. None if there is no such view.
pub fn in_fleets(name: &str) -> Option<String> {
    let is_view = library::fleet_views().is_ok_and(|views| views.iter().any(|view| view.name == name));
    is_view.then(|| {
        format!("`{name}` is over many captures: stallmap sql --over FOLDER -c 'SELECT * FROM {name}'")
    })
}

fn signatures(session: &Session) -> BTreeMap<String, String> {
    let state = session.context().state();
    let scalar = state.scalar_functions().values().filter_map(|f| Some((f.name(), f.documentation()?)));
    let aggregate = state.aggregate_functions().values().filter_map(|f| Some((f.name(), f.documentation()?)));
    let window = state.window_functions().values().filter_map(|f| Some((f.name(), f.documentation()?)));
    scalar
        .chain(aggregate)
        .chain(window)
        .map(|(name, doc)| (name.to_owned(), doc.syntax_example.clone()))
        .collect()
}

/// The candidate that was probably meant, if any. A plural and a missing prefix or suffix count little.
pub fn nearest<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let name = name.to_lowercase();
    let far = (name.chars().count() / 3).clamp(1, 4);
    let is_short = |candidate: &&str| candidate.len().max(name.len()) <= MAX_NAME_BYTES;
    let edited = |candidate: &'a str| {
        let known = candidate.to_lowercase();
        let edits = strsim::damerau_levenshtein(&name, &known);
        let is_part = name.len() >= 4 && (known.contains(&name) || name.contains(&known) && known.len() >= 4);
        // Of equally near candidates, the one with the fewest edits.
        (if is_part { edits.min(1) } else { edits }, edits, candidate)
    };
    let nearest = candidates.filter(is_short).take(MAX_CANDIDATES).map(edited).min();
    nearest.filter(|(distance, ..)| *distance <= far).map(|(.., candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(name: &str, expected: Option<&str>) {
        let names = ["launch", "launch_run", "pc_sample", "tensor", "op", "coverage"];
        assert_eq!(nearest(name, names.into_iter()), expected);
    }

    #[test]
    fn finds_what_was_meant() {
        check("launches", Some("launch"));
        check("lanch", Some("launch"));
        check("pc_samples", Some("pc_sample"));
        check("samples", None);
        check("sample", Some("pc_sample"));
        check("TENSOR", Some("tensor"));
        check("ops", Some("op"));
        check("elephant", None);
        assert!(in_fleets("trend").is_some() && in_fleets("launch").is_none());
        check(&"launch".repeat(100_000), None);
        assert_eq!(nearest("tensor_costs", ["tensor", "tensor_cost"].into_iter()), Some("tensor_cost"));
    }
}
