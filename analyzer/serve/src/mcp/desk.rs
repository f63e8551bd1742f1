//! The open captures: a session for each, and one over all.

use datafusion::logical_expr::LogicalPlan;
use serde_json::{Value, json};
use stallmap::library::queries::CommandQuery;
use stallmap::library::queries::{agent as queries, report};
use stallmap::session::Session;
use stallmap_console::absent;
use stallmap_console::answer::kept_rows;
use stallmap_console::args::named::NamedCapture;
use stallmap_console::context::{CommandContext, runtime};
use stallmap_console::exit::{CommandFailure, Outcome, QUERY, USAGE};
use stallmap_console::explain::{explain, explain_in};
use stallmap_console::names::nearest;
use stallmap_lists::diff::named;

use crate::mcp::answer::{CappedRows, shown};

/// Rows of losses in an answer.
const MAX_LOSSES: usize = 20;
/// Tables without which a kind of question has no answer.
const QUESTIONS: [(&str, &str); 5] = [
    ("stalls and their costs", "SELECT * FROM pc_sample"),
    ("accesses and their tensors", "SELECT * FROM memory_access"),
    ("tensors, ops and lines of Python", "SELECT * FROM op"),
    ("hardware counters", "SELECT * FROM counter"),
    ("measured durations of kernels", "SELECT * FROM replay"),
];

/// One open capture.
pub(crate) struct DeskCapture {
    /// Its name in answers and in SQL.
    pub(crate) name: String,
    /// Its file.
    pub(crate) path: String,
    /// A session over it alone: names in queries need no prefix.
    pub(crate) session: Session,
    /// Items of coverage that are not complete, and the number of complete ones.
    pub(crate) coverage: Value,
    /// Losses by kind and reason.
    pub(crate) lost: Value,
    /// Questions without an answer, with the reason.
    pub(crate) cannot: Value,
}

/// All open captures.
pub(crate) struct CaptureDesk {
    captures: Vec<DeskCapture>,
    /// A session over several captures by name. None for one.
    all: Option<Session>,
}

impl CaptureDesk {
    /// Opens captures, and reads their coverage once.
    pub(crate) fn open(context: &CommandContext, captures: &[NamedCapture]) -> Outcome<Self> {
        let named = named(captures);
        let runtime = runtime()?;
        let mut opened = Vec::new();
        for (name, location) in &named {
            let session = context.open(&[(None, location.clone())])?;
            let name = name.clone().unwrap_or_default();
            opened.push(runtime.block_on(described(name, location.display().to_string(), session))?);
        }
        let all = if named.len() > 1 { Some(context.open(&named)?) } else { None };
        Ok(Self { captures: opened, all })
    }

    /// All captures.
    pub(crate) fn captures(&self) -> &[DeskCapture] {
        &self.captures
    }

    /// A capture by name, or the first.
    pub(crate) fn capture(&self, name: Option<&str>) -> Outcome<&DeskCapture> {
        let found = match name {
            None => self.captures.first(),
            Some(name) => self.captures.iter().find(|capture| capture.name == name),
        };
        let names: Vec<&str> = self.captures.iter().map(|capture| capture.name.as_str()).collect();
        found.ok_or_else(|| {
            let hint = nearest(name.unwrap_or_default(), names.iter().copied()).map_or_else(
                || format!("captures: {}", names.join(", ")),
                |near| format!("did you mean `{near}`?"),
            );
            CommandFailure::message(USAGE, "no capture has this name").hint(hint)
        })
    }

    /// The session for queries by name.
    pub(crate) fn session(&self) -> Outcome<&Session> {
        let first = self.captures.first().map(|capture| &capture.session);
        self.all.as_ref().or(first).ok_or_else(|| CommandFailure::message(USAGE, "no capture is open"))
    }

    /// The session over several captures.
    pub(crate) fn several(&self) -> Outcome<&Session> {
        self.all.as_ref().ok_or_else(|| {
            CommandFailure::message(USAGE, "one capture is open, and a comparison needs two")
                .hint("start the server with two captures".to_owned())
        })
    }
}

async fn described(name: String, path: String, session: Session) -> Outcome<DeskCapture> {
    let covered = library_rows(&session, queries::COVERAGE).await?;
    // Items without a total, such as the number of launches, are neither complete nor incomplete.
    let is = |row: &&Value, state: bool| row["is_whole"] == Value::Bool(state);
    let complete = covered.iter().filter(|row| is(row, true)).count();
    let incomplete: Vec<&Value> = covered.iter().filter(|row| is(row, false)).collect();
    let known = covered.iter().filter(|row| row["is_whole"].is_null());
    let known: Vec<Value> = known.map(|row| json!([row["item"], row["count"], row["total"]])).collect();
    let coverage = json!({ "complete_items": complete, "incomplete": incomplete, "item_count_total": known });
    let losses = library_rows(&session, report::LOSSES).await?;
    let lost =
        json!({ "rows": losses.iter().take(MAX_LOSSES).collect::<Vec<_>>(), "row_count": losses.len() });
    let mut cannot = Vec::new();
    for (question, sql) in QUESTIONS {
        if let Some(reason) = absent::why(&session, sql).await {
            cannot.push(json!({ "question": question, "reason": shown(&reason) }));
        }
    }
    Ok(DeskCapture { name, path: shown(&path), session, coverage, lost, cannot: Value::from(cannot) })
}

/// The rows of a query of the library.
async fn library_rows(session: &Session, query: CommandQuery) -> Outcome<Vec<Value>> {
    let rows = CappedRows::from_batches(&kept_rows(session, &query.sql(&[])).await?, usize::MAX)?;
    Ok(rows.into_values())
}

/// The rows of a statement that the server wrote.
pub(crate) async fn ask(session: &Session, sql: &str, most: usize) -> Outcome<CappedRows> {
    CappedRows::from_batches(&kept_rows(session, sql).await?, most)
}

/// The rows of a statement that the agent wrote: one that only reads.
pub(crate) async fn ask_for_agent(session: &Session, sql: &str, most: usize) -> Outcome<CappedRows> {
    let plan = session.plan(sql).await.map_err(|error| explain_in(error, session, sql))?;
    if changes(&plan) {
        return Err(CommandFailure::message(QUERY, "the statement changes the session")
            .hint("use SELECT, WITH, EXPLAIN, DESCRIBE or SHOW".to_owned()));
    }
    // The planner takes no limit above an EXPLAIN, which has few rows.
    let is_explained = matches!(plan, LogicalPlan::Explain(_) | LogicalPlan::Analyze(_));
    let limit = (!is_explained).then_some(most + 1);
    let frame = session.read(plan).await.map_err(|error| explain_in(error, session, sql))?;
    let schema = std::sync::Arc::clone(frame.schema().inner());
    let limited = match limit {
        Some(_) => frame.limit(0, limit).map_err(|error| explain(error.into(), Some(session)))?,
        None => frame,
    };
    let mut rows = limited.collect().await.map_err(|error| explain(error.into(), Some(session)))?;
    if rows.is_empty() {
        rows.push(arrow::array::RecordBatch::new_empty(schema));
    }
    CappedRows::from_batches(&rows, most)
}

/// True for statements that create, drop, set or write.
fn changes(plan: &LogicalPlan) -> bool {
    matches!(
        plan,
        LogicalPlan::Ddl(_) | LogicalPlan::Dml(_) | LogicalPlan::Copy(_) | LogicalPlan::Statement(_)
    )
}
