//! Opens captures and runs SQL: the only place that builds a DataFusion context.

mod answers;
pub(crate) mod bounded;
mod context;
pub mod every;
mod hex_text;
pub mod leaf;
pub mod led;
mod made;
mod plain;
mod remembered;
pub mod resources;
pub(crate) mod stored;
pub mod verified;
pub(crate) mod views;
mod within;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow::array::RecordBatch;
use datafusion::catalog::{CatalogProvider, MemoryCatalogProvider, SchemaProvider, TableProvider};
use datafusion::common::config::Dialect;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{DdlStatement, LogicalPlan};
use datafusion::prelude::{DataFrame, SessionContext};
use futures::future::BoxFuture;
use stallmap_schema::capture::error::CaptureError;
use stallmap_schema::capture::reader::CaptureReader;
use stallmap_schema::table::{ColumnDef, TableDef, TableRow as _};
use stallmap_write::{CaptureForm, CaptureWriter};

use self::context::context;
use self::every::{EVERY, UnionSchema};
use self::hex_text::hex_numbers;
use self::led::LeadingNames;
use self::made::with_reserved_rows;
use self::resources::SessionResources;
use self::stored::ViewStore;
use self::views::empty::causes;
use self::views::inline::{expanded, sources};
use self::views::lazy::PlannedSchema;
use self::views::materialize::{TASKS_PER_THREAD, keep_again, keep_views, named};
use self::views::reasons;
use self::views::small::{FEW_ROWS, context_for};
use self::views::together::{MANY_ACCESSES, keep_analyses};
use crate::error::AnalyzeError;
use crate::lexer::{self, TokenKind};
use crate::library::fault::LibraryFault;
use crate::library::query::SavedQuery;
use crate::library::user::UserLibrary;
use crate::library::{self, ViewDoc};
pub use answers::stored_choices;
use stallmap_engine::code::CaptureCode;
use stallmap_engine::table::CaptureEngine;
use stallmap_tables::captured::{CapturedTable, TablePresence};
use stallmap_tables::listing::CaptureTable;
use stallmap_tables::location::CaptureLocation;
use stallmap_tables::provider::DerivedTable;
use stallmap_tables::tasks::{self, RunningTasks, is_out_of_memory};
pub use stallmap_tables::work::SessionWork;

/// The catalog that holds each capture as a schema.
const CATALOG: &str = "stallmap";
/// The schema of an unnamed capture.
pub const UNNAMED: &str = "capture";

/// A call of the planner under way.
///
/// It is boxed: the compiler builds an `async fn` in each crate that awaits it, and with this one DataFusion's complete
/// planner, 7 MB of code.
pub type PlanningFuture<'a, T> = BoxFuture<'a, Result<T, AnalyzeError>>;

/// Open captures, ready to be queried.
pub struct Session {
    context: SessionContext,
    captures: Vec<OpenCapture>,
    /// The built-in views, then the user's.
    views: Vec<ViewDoc>,
    queries: Vec<SavedQuery>,
    /// True after a statement that made something, or changed a setting.
    is_changed: Arc<AtomicBool>,
    /// The schema in the place of the captures, if one leads.
    leading: Option<LeadingNames>,
}

/// One open capture.
#[derive(Clone, Debug)]
pub struct OpenCapture {
    /// The schema in SQL.
    pub name: String,
    /// Its manifest, and everything that is not a table.
    pub reader: CaptureReader,
    /// Its tables by name.
    pub tables: BTreeMap<String, Arc<CapturedTable>>,
    /// Tables that no capture holds: they are computed on demand.
    derived: Vec<TableDef>,
    store: Arc<ViewStore>,
}

/// A table of an open capture.
#[derive(Clone, Debug)]
pub struct TableInfo {
    /// The capture's name: the schema in SQL.
    pub capture: String,
    /// Name in SQL.
    pub name: String,
    /// Description of one row. Empty for tables that this version does not know.
    pub doc: String,
    /// Each column: name, SQL type as Arrow spells it, doc.
    pub columns: Vec<(String, String, String)>,
    /// Rows, or 0 if derived.
    pub rows: i64,
    /// Bytes in the capture.
    pub size_bytes: usize,
    /// Presence in the capture. An absent table is empty.
    pub presence: TablePresence,
    /// True if it is computed on demand.
    pub is_derived: bool,
}

impl Session {
    /// Opens captures under names. A single capture needs no name. Unqualified names refer to the first. Nothing is
    /// cached on disk.
    pub fn open(captures: &[(Option<String>, PathBuf)]) -> Result<Self, AnalyzeError> {
        Self::open_with(captures, &SessionResources::NONE)
    }

    /// The same, with a cache and a limit of memory.
    pub fn open_with<L: Clone + Into<CaptureLocation>>(
        captures: &[(Option<String>, L)],
        resources: &SessionResources,
    ) -> Result<Self, AnalyzeError> {
        let mut opened = Vec::new();
        for (name, location) in captures {
            let location: CaptureLocation = location.clone().into();
            if name.is_none() && captures.len() > 1 {
                return Err(AnalyzeError::MissingName { path: location.to_path_buf() });
            }
            let name = name.clone().unwrap_or_else(|| UNNAMED.to_owned());
            opened.push((name, location.open()?));
        }
        Self::over(opened, resources)
    }

    /// A session over open captures, by name. Unqualified names refer to the first.
    pub fn over(
        captures: Vec<(String, CaptureReader)>,
        resources: &SessionResources,
    ) -> Result<Self, AnalyzeError> {
        let first = captures.first().ok_or(AnalyzeError::NoCapture)?.0.clone();
        let context = context(&first, resources)?;
        let catalog = Arc::new(MemoryCatalogProvider::new());
        context.register_catalog(CATALOG, Arc::clone(&catalog) as Arc<dyn CatalogProvider>);
        let views = library::views()?;
        let mut session = Self {
            context,
            captures: Vec::new(),
            views: views.to_vec(),
            queries: Vec::new(),
            is_changed: Arc::default(),
            leading: None,
        };
        let mut schemas = Vec::new();
        for (name, reader) in captures {
            check_name(&name)?;
            if session.captures.iter().any(|capture| capture.name == name) {
                return Err(AnalyzeError::DuplicateName { name });
            }
            let tables = stallmap_tables::open(&reader)?;
            let runtime = session.context.runtime_env();
            for table in tables.values() {
                table.count_in(&runtime.memory_pool);
            }
            let store = Arc::new(ViewStore::new(reader.clone(), resources));
            if let Some(view) = store.differing() {
                return Err(AnalyzeError::StoredRows { view, path: reader.path().to_owned() });
            }
            let schema = PlannedSchema::new(session.state_in(&name), views, Arc::clone(&store))?;
            let code = Arc::new(CaptureCode::new(reader.clone(), resources.cache.clone()));
            let derived = register_tables(schema.as_ref(), &tables, &code)?;
            catalog.register_schema(&name, Arc::clone(&schema) as Arc<dyn SchemaProvider>)?;
            schemas.push((name.clone(), schema as Arc<dyn SchemaProvider>));
            session.captures.push(OpenCapture { name, reader, tables, derived, store });
        }
        catalog.register_schema(EVERY, Arc::new(UnionSchema::new(schemas)))?;
        Ok(session)
    }

    /// A session over a capture without rows, for names and types.
    pub fn without_rows() -> Result<Self, AnalyzeError> {
        Self::without_rows_with(&SessionResources::NONE)
    }

    /// The same, with a limit of memory.
    pub fn without_rows_with(resources: &SessionResources) -> Result<Self, AnalyzeError> {
        let wrong = |source| CaptureError::Io { action: "create folder", path: std::env::temp_dir(), source };
        let folder = tempfile::tempdir().map_err(wrong)?;
        let path = folder.path().join("empty");
        CaptureWriter::create(&path, CaptureForm::Folder)?.finish()?;
        Self::open_with(&[(None, path)], resources)
    }

    /// Tables and views of the first capture by name. None if there is no such table.
    pub async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>, AnalyzeError> {
        let catalog = self.context.catalog(CATALOG);
        let first = self.captures.first().map(|capture| capture.name.as_str());
        let Some(schema) = catalog.zip(first).and_then(|(catalog, name)| catalog.schema(name)) else {
            return Ok(None);
        };
        Ok(schema.table(name).await?)
    }

    /// Adds a user's own views and queries to every capture. A library with a fault adds nothing.
    pub fn extend(&mut self, library: &UserLibrary) -> Result<(), AnalyzeError> {
        let mut faults = self.try_extend(library);
        if faults.is_empty() {
            return Ok(());
        }
        let others = faults.len() - 1;
        Err(AnalyzeError::Library { fault: Box::new(faults.swap_remove(0)), others })
    }

    /// The same. Returns all faults.
    pub fn try_extend(&mut self, library: &UserLibrary) -> Vec<LibraryFault> {
        let mut faults = library.faults().to_vec();
        for capture in &self.captures {
            let state = self.state_in(&capture.name);
            let catalog = self.context.catalog(CATALOG);
            let Some(schema) = catalog.and_then(|catalog| catalog.schema(&capture.name)) else { continue };
            faults.extend(library.define(&state, schema.as_ref()));
        }
        faults.sort_by(|a, b| (&a.path, a.flaw.line).cmp(&(&b.path, b.flaw.line)));
        faults.dedup();
        if faults.is_empty() {
            self.views.extend_from_slice(library.views());
            self.queries.extend_from_slice(library.queries());
        }
        faults
    }

    /// Plans one statement. Statements that write files or read files other than the captures are rejected.
    pub fn sql<'a>(&'a self, sql: &'a str) -> PlanningFuture<'a, DataFrame> {
        Box::pin(async move {
            let plan = self.plan(sql).await?;
            check_read_only(&plan)?;
            self.check_drop(&plan)?;
            self.frame(plan).await
        })
    }

    /// An error for a statement that drops a table of a capture, or a view of the library.
    fn check_drop(&self, plan: &LogicalPlan) -> Result<(), AnalyzeError> {
        let name = match plan {
            LogicalPlan::Ddl(DdlStatement::DropView(drop)) => drop.name.table(),
            LogicalPlan::Ddl(DdlStatement::DropTable(drop)) => drop.name.table(),
            _ => return Ok(()),
        };
        let is_held = self.captures.iter().any(|capture| {
            capture.tables.contains_key(name) || capture.derived.iter().any(|table| table.name == name)
        });
        if !is_held && !self.views.iter().any(|view| view.name == name) {
            return Ok(());
        }
        let hint = "DROP removes only what the session made with CREATE VIEW or CREATE TABLE AS";
        Err(AnalyzeError::ReadOnly { statement: format!("DROP of `{name}`"), hint })
    }

    /// Runs a plan of [`Session::plan`] that passes [`Session::check_reads_only`], for example with values for its
    /// parameters.
    pub fn read(&self, plan: LogicalPlan) -> PlanningFuture<'_, DataFrame> {
        Box::pin(async move {
            Self::check_reads_only(&plan)?;
            self.frame(plan).await
        })
    }

    /// An error for a plan that changes anything: captures, the session, its settings.
    pub fn check_reads_only(plan: &LogicalPlan) -> Result<(), AnalyzeError> {
        let refuse = |statement: &str| {
            let hint = "use SELECT, WITH, EXPLAIN, DESCRIBE or SHOW";
            Err(AnalyzeError::ReadOnly { statement: statement.into(), hint })
        };
        match plan {
            LogicalPlan::Ddl(ddl) => refuse(ddl.name()),
            LogicalPlan::Dml(dml) => refuse(&dml.op.to_string()),
            LogicalPlan::Copy(_) => refuse("COPY"),
            LogicalPlan::Statement(statement) => refuse(statement.name()),
            _ => plan.inputs().into_iter().try_for_each(Self::check_reads_only),
        }
    }

    /// One statement's plan, with views as leaves.
    pub fn plan<'a>(&'a self, sql: &'a str) -> PlanningFuture<'a, LogicalPlan> {
        Box::pin(async move { Ok(plan_of(&self.context, sql).await?) })
    }

    /// The tables that a statement reads through views: capture and name, without capture if the statement names none.
    pub fn sources<'a>(&'a self, sql: &'a str) -> PlanningFuture<'a, BTreeSet<(String, String)>> {
        Box::pin(async move { Ok(sources(&self.plan(sql).await?)) })
    }

    /// The tables whose lack leaves a statement without rows, named like [`Session::sources`]. Empty if it may have some.
    pub fn causes<'a>(&'a self, sql: &'a str) -> PlanningFuture<'a, BTreeSet<(String, String)>> {
        Box::pin(async move {
            let plan = self.plan(sql).await?;
            reasons::explain(self.context.state(), &plan, &mut BTreeSet::new()).await?;
            Ok(causes(&plan).unwrap_or_default())
        })
    }

    /// Computes the views that statements name, for statements that will read them too. Their rows are cached, unless
    /// they are too many.
    pub fn keep_views_of<'a>(&'a self, statements: &'a [&'a str]) -> PlanningFuture<'a, ()> {
        Box::pin(self.keep_named(statements))
    }

    async fn keep_named(&self, statements: &[&str]) -> Result<(), AnalyzeError> {
        let state = self.context.state();
        let mut names = BTreeSet::new();
        for sql in statements {
            let statement = state.sql_to_statement(sql, &Dialect::Generic)?;
            for name in state.resolve_table_references(&statement)? {
                if name.schema() == Some(EVERY) {
                    names.extend(
                        self.captures.iter().map(|capture| format!("{}.{}", capture.name, name.table())),
                    );
                } else {
                    names.insert(name.to_string());
                }
            }
        }
        self.keep(&names.iter().map(String::as_str).collect::<Vec<_>>()).await
    }

    /// Computes all views that commands read whole. Returns their names.
    pub async fn prepare(&self) -> Result<Vec<&'static str>, AnalyzeError> {
        let words: BTreeSet<&str> = library::whole_statements()?
            .into_iter()
            .flat_map(lexer::tokens)
            .filter(|token| token.kind == TokenKind::Word)
            .map(|token| token.text)
            .collect();
        let views = library::views()?.iter().map(|view| view.name.as_str());
        let views: Vec<&str> = views.filter(|view| words.contains(view)).collect();
        let tables = named(&self.context, &views).await?;
        keep_analyses(&self.context, &tables, 0).await?;
        keep_views(&self.context, tables).await?;
        Ok(views)
    }

    /// Computes views now, for statements that will read them once each.
    pub fn keep<'a>(&'a self, views: &'a [&'a str]) -> PlanningFuture<'a, ()> {
        Box::pin(async move {
            let tables = named(&self.context, views).await?;
            keep_analyses(&self.context, &tables, MANY_ACCESSES).await?;
            Ok(keep_views(&self.context, tables).await?)
        })
    }

    /// The rows of statements of the library, all planned and run at the same time: one batch or more each, for the
    /// column types. Statements may make tables.
    ///
    /// # Errors
    /// Fails with the error of the first statement that fails.
    pub fn rows_of_all<'a>(&'a self, statements: &'a [&'a str]) -> PlanningFuture<'a, Vec<Vec<RecordBatch>>> {
        Box::pin(async move {
            // Each holds the inputs of its joins and sorts.
            let most = self.context.copied_config().target_partitions() * TASKS_PER_THREAD;
            let rows = |at: usize| {
                let (context, is_changed) = (self.context.clone(), Arc::clone(&self.is_changed));
                let sql = statements[at].to_owned();
                async move { rows_of(&context, &sql, &is_changed).await }
            };
            let tasks = RunningTasks::new(
                most,
                |error| matches!(error, AnalyzeError::Query(error) if is_out_of_memory(error)),
            );
            tasks::all(tasks, statements.len(), rows).await
        })
    }

    /// The work of its queries: the part that is done, for progress.
    pub fn work(&self) -> Arc<SessionWork> {
        self.context.copied_config().get_extension().unwrap_or_default()
    }

    /// A plan, ready to run. Tables that it reads more than once are cached for it and for later statements.
    async fn frame(&self, plan: LogicalPlan) -> Result<DataFrame, AnalyzeError> {
        keep_again(&self.context, &plan).await?;
        note_change(&plan, &self.is_changed);
        let is_view = matches!(plan, LogicalPlan::Ddl(DdlStatement::CreateView(_)));
        // The views of a new view are inlined when it is read: they may be cached by then.
        let plan = if is_view { plan } else { expanded(plan)? };
        let plan = with_reserved_rows(&self.context, plan).await?;
        Ok(self.context.execute_logical_plan(plan).await?)
    }

    fn is_changed(&self) -> bool {
        self.is_changed.load(Ordering::Relaxed)
    }

    /// The engine's context, for completion, settings and metrics.
    pub fn context(&self) -> &SessionContext {
        &self.context
    }

    /// The open captures, in the given order.
    pub fn captures(&self) -> &[OpenCapture] {
        &self.captures
    }

    /// The built-in views, then those added by [`Session::extend`].
    pub fn library(&self) -> Result<&[ViewDoc], AnalyzeError> {
        Ok(&self.views)
    }

    /// The saved queries that [`Session::extend`] added.
    pub fn queries(&self) -> &[SavedQuery] {
        &self.queries
    }

    /// The tables of all captures, in reading order, those that this version does not know last.
    pub fn tables(&self) -> Vec<TableInfo> {
        match &self.leading {
            Some(leading) => leading.tables.clone(),
            None => self.captures.iter().flat_map(OpenCapture::table_infos).collect(),
        }
    }

    /// The session's state with unqualified names meaning one capture.
    fn state_in(&self, capture: &str) -> SessionState {
        let mut state = self.context.state();
        capture.clone_into(&mut state.config_mut().options_mut().catalog.default_schema);
        state
    }
}

/// Notes that a statement makes something, or changes a setting.
fn note_change(plan: &LogicalPlan, is_changed: &AtomicBool) {
    if matches!(plan, LogicalPlan::Ddl(_) | LogicalPlan::Statement(_)) {
        is_changed.store(true, Ordering::Relaxed);
    }
}

/// One statement's plan, with views as leaves.
async fn plan_of(context: &SessionContext, sql: &str) -> datafusion::error::Result<LogicalPlan> {
    let state = context.state();
    let statement = state.sql_to_statement(&hex_numbers(sql), &Dialect::Generic)?;
    bounded::plan_of(&state, statement).await
}

/// The rows of a statement: one batch or more.
async fn rows_of(
    context: &SessionContext,
    sql: &str,
    is_changed: &AtomicBool,
) -> Result<Vec<RecordBatch>, AnalyzeError> {
    let plan = plan_of(context, sql).await?;
    let read = match &plan {
        LogicalPlan::Ddl(DdlStatement::CreateMemoryTable(table)) => &table.input,
        plan => plan,
    };
    Session::check_reads_only(read)?;
    note_change(&plan, is_changed);
    keep_again(context, &plan).await?;
    let plan = expanded(plan)?;
    let context = context_for(context, &plan, FEW_ROWS).await;
    let frame = context.execute_logical_plan(plan).await?;
    let schema = Arc::clone(frame.schema().inner());
    let rows = frame.collect().await?;
    Ok(if rows.is_empty() { vec![RecordBatch::new_empty(schema)] } else { rows })
}

impl OpenCapture {
    fn table_infos(&self) -> impl Iterator<Item = TableInfo> {
        let declared = stallmap_schema::tables::ALL.iter().filter_map(|table| self.tables.get(table.name));
        let others = self.tables.values().filter(|table| stallmap_tables::definition(table.name()).is_none());
        let captured = declared.chain(others).map(|table| TableInfo {
            capture: self.name.clone(),
            name: table.name().to_owned(),
            doc: stallmap_tables::definition(table.name())
                .map(|t| t.doc.trim().to_owned())
                .unwrap_or_default(),
            columns: table.columns(),
            rows: table.rows(),
            size_bytes: table.size_bytes(),
            presence: table.presence(),
            is_derived: false,
        });
        captured.chain(self.derived.iter().map(|definition| self.derived_info(definition)))
    }

    fn derived_info(&self, definition: &TableDef) -> TableInfo {
        let column = |column: &ColumnDef| {
            (column.name.to_owned(), (column.data_type)().to_string(), column.doc.trim().to_owned())
        };
        TableInfo {
            capture: self.name.clone(),
            name: definition.name.to_owned(),
            doc: definition.doc.trim().to_owned(),
            columns: definition.columns.iter().map(column).collect(),
            rows: 0,
            size_bytes: 0,
            presence: TablePresence::Held,
            is_derived: true,
        }
    }
}

/// Names that SQL reads without quotes.
fn check_name(name: &str) -> Result<(), AnalyzeError> {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    if name.chars().all(plain)
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && !["information_schema", EVERY].contains(&name)
    {
        return Ok(());
    }
    Err(AnalyzeError::BadName { name: name.to_owned() })
}

fn check_read_only(plan: &LogicalPlan) -> Result<(), AnalyzeError> {
    let refuse = |statement: &str, hint| Err(AnalyzeError::ReadOnly { statement: statement.into(), hint });
    match plan {
        LogicalPlan::Ddl(
            DdlStatement::CreateView(_)
            | DdlStatement::CreateMemoryTable(_)
            | DdlStatement::DropView(_)
            | DdlStatement::DropTable(_),
        ) => Ok(()),
        LogicalPlan::Ddl(ddl) => {
            refuse(ddl.name(), "use CREATE VIEW or CREATE TABLE AS, which last until the session ends")
        }
        LogicalPlan::Dml(dml) => {
            refuse(&dml.op.to_string(), "store rows with CREATE TABLE name AS SELECT ...")
        }
        LogicalPlan::Copy(_) => refuse("COPY", "choose an output format and file on the command line"),
        _ => plan.inputs().into_iter().try_for_each(check_read_only),
    }
}

/// Adds the tables of a capture to its schema, and those derived from them. Returns the latter.
fn register_tables(
    schema: &dyn SchemaProvider,
    tables: &BTreeMap<String, Arc<CapturedTable>>,
    code: &Arc<CaptureCode>,
) -> Result<Vec<TableDef>, AnalyzeError> {
    for (name, table) in tables {
        schema.register_table(name.clone(), Arc::clone(table) as _)?;
    }
    let mut derived = Vec::new();
    for table in derived_tables(tables, code) {
        derived.push(table.table());
        schema.register_table(table.table().name.to_owned(), Arc::new(table))?;
    }
    let listing = stallmap_tables::listing::listing(tables.values())?;
    derived.push(CaptureTable::TABLE);
    schema.register_table(CaptureTable::TABLE.name.to_owned(), Arc::new(listing))?;
    Ok(derived)
}

/// The tables that are computed from those of a capture.
fn derived_tables(
    tables: &BTreeMap<String, Arc<CapturedTable>>,
    code: &Arc<CaptureCode>,
) -> Vec<DerivedTable> {
    let table = |name: &str| tables.get(name).cloned();
    let mut derived = Vec::new();
    if let Some(engine) = CaptureEngine::new(table).map(Arc::new) {
        engine.set_code(stallmap_engine::code::table::access_facts(code));
        derived.extend(engine.tables());
    }
    derived.extend(stallmap_engine::code::table::tables(code));
    derived.extend(stallmap_engine::steps::critical::table::tables(table).into_iter().flatten());
    derived
}
