//! A user's own library: views and saved queries in a folder, with the rules of the built-in library.
//!
//! ```text
//! folder ──> files ──> rules of one file ──> views, queries ──> order ──> planned over a session ──> defined
//! ```
//!
//! An error is a [`LibraryFault`]. A library with a fault is not used, not even in part.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use datafusion::catalog::SchemaProvider;
use datafusion::common::config::Dialect;
use datafusion::error::DataFusionError;
use datafusion::execution::SessionState;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast;
use futures::executor::block_on;

use super::fault::{LibraryFault, LibraryRule, TextFlaw};
use super::folder::{self, SqlFile};
use super::query::SavedQuery;
use super::{ViewDoc, doc, order};
use crate::error::AnalyzeError;
use crate::lexer::{self, TokenKind};
use crate::session::bounded;
use crate::session::views::inline::planned;

/// A folder of a user's own views and queries.
#[derive(Clone, Debug, Default)]
pub struct UserLibrary {
    root: PathBuf,
    views: Vec<ViewDoc>,
    queries: Vec<SavedQuery>,
    faults: Vec<LibraryFault>,
}

/// Content of a file.
enum UserContent {
    View(ViewDoc),
    Query(SavedQuery),
}

impl UserLibrary {
    /// Reads a folder. Errors in its files are returned as faults.
    pub fn read(root: &Path) -> Result<Self, AnalyzeError> {
        let wrong = |source| AnalyzeError::LibraryFolder { path: root.to_owned(), source };
        let (files, faults) = folder::read(root).map_err(wrong)?;
        let mut library = Self { root: root.to_owned(), faults, ..Self::default() };
        for file in files {
            match held(&file) {
                Ok(UserContent::View(view)) => library.views.push(view),
                Ok(UserContent::Query(query)) => library.queries.push(query),
                Err(flaw) => library.faults.push(flaw.within(file.path)),
            }
        }
        library.find_doubles();
        Ok(library)
    }

    /// The folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Its views, in the order of their files.
    pub fn views(&self) -> &[ViewDoc] {
        &self.views
    }

    /// Its saved queries, in the order of their files.
    pub fn queries(&self) -> &[SavedQuery] {
        &self.queries
    }

    /// Errors of its files that show without a session. See [`crate::session::Session::extend`].
    pub fn faults(&self) -> &[LibraryFault] {
        &self.faults
    }

    /// Names that two files have.
    fn find_doubles(&mut self) {
        let views = self.views.iter().map(|view| (&view.name, view.file.as_deref()));
        let queries = self.queries.iter().map(|query| (&query.name, Some(query.file.as_path())));
        let mut seen: Vec<(&String, &Path)> = Vec::new();
        for (name, path) in views.chain(queries) {
            let Some(path) = path else { continue };
            match seen.iter().find(|(other, _)| *other == name) {
                Some((_, other)) => {
                    let message = format!("`{name}` is the name of {} too", other.display());
                    self.faults.push(TextFlaw::new(1, LibraryRule::Taken, message).within(path));
                }
                None => seen.push((name, path)),
            }
        }
    }

    /// Defines the views in a schema and plans the queries. `state` resolves unqualified names to the same schema.
    pub(crate) fn define(&self, state: &SessionState, schema: &dyn SchemaProvider) -> Vec<LibraryFault> {
        let mut faults = Vec::new();
        let mut waiting = Vec::new();
        for view in &self.views {
            if schema.table_exist(&view.name) {
                faults.push(at(
                    view,
                    1,
                    LibraryRule::Taken,
                    format!("`{}` is a table or view of stallmap", view.name),
                ));
                continue;
            }
            match order::reads(state, view) {
                Ok(reads) => waiting.push((view, reads)),
                Err(error) => {
                    faults.push(at(view, line(&error, &view.sql), LibraryRule::Plan, cause(&error)));
                }
            }
        }
        let (ordered, circular) = order::ordered(waiting);
        for (view, reads) in circular {
            let reads = reads.into_iter().collect::<Vec<_>>().join("`, `");
            let message = format!("it reads itself through one of `{reads}`");
            faults.push(at(view, 1, LibraryRule::Plan, message));
        }
        let mut broken: BTreeSet<String> = self.broken(&faults);
        for view in ordered {
            let Err(error) = define(state, schema, view) else { continue };
            if !is_follow_up(&error, &broken) {
                faults.push(at(view, line(&error, &view.sql), LibraryRule::Plan, cause(&error)));
            }
            broken.insert(view.name.clone());
        }
        faults.extend(self.queries.iter().filter_map(|query| fault_of(query, state, &broken)));
        faults
    }

    /// Names of views with faults: views that read them have no fault of their own.
    fn broken(&self, faults: &[LibraryFault]) -> BTreeSet<String> {
        let stems = faults.iter().chain(&self.faults).filter_map(|fault| fault.path.file_stem());
        stems.map(|stem| stem.to_string_lossy().into_owned()).collect()
    }
}

/// Defines one view whose own reads are defined.
fn define(state: &SessionState, schema: &dyn SchemaProvider, view: &ViewDoc) -> Result<(), DataFusionError> {
    // In-memory tables never block a plan.
    let table = block_on(planned(state, view, &view.sql))?;
    schema.register_table(view.name.clone(), Arc::new(table)).map(drop)
}

/// Content of a file, if it follows the rules that can be checked without a session.
fn held(file: &SqlFile) -> Result<UserContent, TextFlaw> {
    let SqlFile { path, package, name, text } = file;
    check_name(name)?;
    let significant =
        |token: &lexer::SqlToken<'_>| !matches!(token.kind, TokenKind::Space | TokenKind::Comment);
    let first = lexer::tokens(text).find(significant);
    let Some(first) = first else {
        return Err(TextFlaw::new(1, LibraryRule::Statement, "the file holds no statement"));
    };
    let is = |words: &[&str]| words.iter().any(|word| first.text.eq_ignore_ascii_case(word));
    if is(&["CREATE"]) {
        let mut view = doc::parse(package, name, text)?;
        view.file = Some(path.clone());
        check_view(text)?;
        Ok(UserContent::View(view))
    } else if is(&["SELECT", "WITH", "VALUES", "("]) {
        let query = SavedQuery::parse(package, name, text, path.clone())?;
        check_query(&query)?;
        Ok(UserContent::Query(query))
    } else {
        let at = text[..first.start].matches('\n').count() + 1;
        Err(TextFlaw::new(at, LibraryRule::Statement, format!("it begins with `{}`", first.text)))
    }
}

fn check_name(name: &str) -> Result<(), TextFlaw> {
    let is_part = |char: char| char.is_ascii_lowercase() || char.is_ascii_digit() || char == '_';
    if name.starts_with(|char: char| char.is_ascii_lowercase()) && name.chars().all(is_part) {
        return Ok(());
    }
    Err(TextFlaw::new(1, LibraryRule::Name, format!("`{name}` is not a name that SQL reads without quotes")))
}

/// One CREATE VIEW that neither sorts nor limits.
fn check_view(text: &str) -> Result<(), TextFlaw> {
    let ast::Statement::CreateView(view) = parsed(text)? else {
        return Err(TextFlaw::new(1, LibraryRule::Statement, "not a CREATE VIEW"));
    };
    let query = &view.query;
    let clause = match () {
        () if query.order_by.is_some() => "ORDER BY",
        () if query.limit_clause.is_some() => "LIMIT",
        () if query.fetch.is_some() => "FETCH",
        () => return Ok(()),
    };
    let last = clause.split(' ').next().unwrap_or(clause);
    let token = lexer::tokens(text).filter(|token| token.text.eq_ignore_ascii_case(last)).last();
    let line = token.map_or(1, |token| text[..token.start].matches('\n').count() + 1);
    Err(TextFlaw::new(line, LibraryRule::Sorting, format!("the view ends with {clause}")))
}

fn check_query(query: &SavedQuery) -> Result<(), TextFlaw> {
    match parsed(&query.sample())? {
        ast::Statement::Query(_) => Ok(()),
        _ => Err(TextFlaw::new(1, LibraryRule::Statement, "not a SELECT")),
    }
}

/// The one statement of a text.
fn parsed(text: &str) -> Result<ast::Statement, TextFlaw> {
    // A separate state, used only for parsing.
    let state = datafusion::execution::session_state::SessionStateBuilder::new().build();
    match state.sql_to_statement(text, &Dialect::Generic) {
        Ok(Statement::Statement(statement)) => Ok(*statement),
        Ok(_) => Err(TextFlaw::new(1, LibraryRule::Statement, "it is neither a CREATE VIEW nor a SELECT")),
        Err(error) => Err(TextFlaw::new(line(&error, text), LibraryRule::Statement, cause(&error))),
    }
}

fn fault_of(query: &SavedQuery, state: &SessionState, broken: &BTreeSet<String>) -> Option<LibraryFault> {
    let planned = async {
        let statement = state.sql_to_statement(&query.sample(), &Dialect::Generic)?;
        bounded::plan_of(state, statement).await
    };
    let error = block_on(planned).err()?;
    let is_new = !is_follow_up(&error, broken);
    is_new.then(|| {
        TextFlaw::new(line(&error, &query.sql), LibraryRule::Plan, cause(&error)).within(&query.file)
    })
}

/// True if a statement fails only because it reads a view with a fault.
fn is_follow_up(error: &DataFusionError, broken: &BTreeSet<String>) -> bool {
    let text = error.find_root().strip_backtrace();
    let table = text.split("table '").nth(1).and_then(|rest| rest.split('\'').next());
    table.and_then(|table| table.rsplit('.').next()).is_some_and(|table| broken.contains(table))
}

fn at(view: &ViewDoc, line: usize, rule: LibraryRule, message: String) -> LibraryFault {
    TextFlaw::new(line, rule, message).within(view.file.clone().unwrap_or_default())
}

/// The line that an error names, or that holds the name in it. Otherwise the first line.
fn line(error: &DataFusionError, text: &str) -> usize {
    let cause = error.find_root().strip_backtrace();
    let after = |before: &str| cause.split(before).nth(1);
    let number = after("Line: ").and_then(|rest| rest.split(',').next());
    if let Some(line) = number.and_then(|line| line.trim().parse().ok()) {
        return line;
    }
    let quoted = after("table '").or_else(|| after("function '")).and_then(|rest| rest.split('\'').next());
    let field = || after("No field named ").and_then(|rest| rest.split(". ").next());
    let name = quoted.or_else(field).and_then(|name| name.trim_end_matches('.').rsplit('.').next());
    let named = lexer::tokens(text).find(|token| token.kind == TokenKind::Word && Some(token.text) == name);
    named.map_or(1, |token| text[..token.start].matches('\n').count() + 1)
}

/// An error's text in one line, without the engine's wrappers.
fn cause(error: &DataFusionError) -> String {
    let text = error.find_root().strip_backtrace();
    let mut text = text.lines().map(str::trim).collect::<Vec<_>>().join(" ");
    for prefix in ["SQL error: ", "Error during planning: ", "Schema error: ", "sql parser error: "] {
        if let Some(rest) = text.strip_prefix(prefix) {
            text = rest.to_owned();
        }
    }
    if text.contains("single SQL statement") {
        return "it holds more than one statement".to_owned();
    }
    // The list of alternatives is long, and the names of catalog and schema do not help the user.
    text.split(" Valid fields are ").next().unwrap_or_default().replace("stallmap.capture.", "")
}
