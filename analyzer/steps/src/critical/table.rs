//! `critical_segment` and `critical_item` in a schema: computed together at the first use of either.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use arrow::array::{Array as _, RecordBatch};
use arrow::datatypes::{SchemaRef, UInt32Type, UInt64Type};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::datasource::TableType;
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::error::Result;
use datafusion::logical_expr::Expr;
use datafusion::physical_plan::ExecutionPlan;
use stallmap_schema::id::{FunctionId, KernelId, OpId, RunId};
use stallmap_schema::table::{TableDef, TableRow as _};
use stallmap_tables::captured::CapturedTable;
use stallmap_tables::column::{column, wrong};
use stallmap_tables::derived::OpenWord;
use stallmap_tables::plain;
use tokio::sync::OnceCell;

use super::causes::CauseTable;
use super::model::{PathItem, StepWindow};
use super::read::{CriticalSources, ReadProgram, SOURCES, program};
use super::row::{CriticalItem, CriticalSegment};
use super::walk::{PathPiece, PathWalk};
use super::windows::{LaunchSteps, windows};
use super::without::StepReplay;
use crate::read::texts;
use crate::table::PhaseTable;

/// Items of a step that are left out in turn.
const MAX_ITEMS: usize = 24;
/// Moments of all steps that are computed again, over all items: a few seconds.
const MAX_MOMENTS: usize = 100_000_000;

/// Which of the two tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CriticalTableKind {
    /// Pieces of paths.
    Segment,
    /// Items of paths.
    Item,
}

impl CriticalTableKind {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Segment, Self::Item];

    /// The declaration.
    pub fn table(self) -> TableDef {
        match self {
            Self::Segment => CriticalSegment::TABLE,
            Self::Item => CriticalItem::TABLE,
        }
    }
}

/// The critical paths of a capture.
#[derive(Debug)]
pub struct CriticalPaths {
    /// The tables that [`SOURCES`] names, in its order.
    sources: [Arc<CapturedTable>; SOURCES.len()],
    phases: Arc<PhaseTable>,
    rows: OnceCell<[RecordBatch; 2]>,
}

impl CriticalPaths {
    /// Over the tables of a capture, found by name.
    pub fn new(phases: Arc<PhaseTable>, table: impl Fn(&str) -> Option<Arc<CapturedTable>>) -> Option<Self> {
        let sources: Option<Vec<_>> = SOURCES.iter().map(|(name, _)| table(name)).collect();
        Some(Self { sources: sources?.try_into().ok()?, phases, rows: OnceCell::new() })
    }

    async fn rows(&self) -> Result<[RecordBatch; 2]> {
        let phases = self.phases.batch().await?;
        let read = self.sources.iter().zip(SOURCES).map(|(table, (_, columns))| table.read(columns));
        let sources: Vec<RecordBatch> = read.collect::<Result<_>>()?;
        let sources: CriticalSources = sources.try_into().map_err(|_| wrong("sources"))?;
        let read = program(&sources)?;
        let windows = windows(&read.model.works, &launch_steps(&phases)?);
        let (segments, items) = paths(&read, &windows);
        Ok([CriticalSegment::batch(segments)?, CriticalItem::batch(items)?])
    }
}

/// The steps of launches.
fn launch_steps(phases: &RecordBatch) -> Result<LaunchSteps> {
    let kernels = column::<UInt64Type>(phases, "kernel_id")?;
    let steps = column::<UInt32Type>(phases, "program_step")?;
    let parts = texts(phases, "setup_part")?;
    let mut found = LaunchSteps { steps: HashMap::new(), warm: HashSet::new() };
    for row in 0..phases.num_rows() {
        if steps.is_valid(row) {
            found.steps.insert(kernels.value(row), steps.value(row));
        }
        if parts.is_valid(row) && parts.value(row) == "warm-up" {
            found.warm.insert(kernels.value(row));
        }
    }
    Ok(found)
}

/// The rows of all steps.
fn paths(read: &ReadProgram, windows: &[StepWindow]) -> (Vec<CriticalSegment>, Vec<CriticalItem>) {
    let causes = CauseTable::from_model(&read.model);
    let (mut segments, mut items) = (Vec::new(), Vec::new());
    let mut positions: HashMap<usize, u64> = HashMap::new();
    let mut left = MAX_MOMENTS;
    for window in windows {
        let pieces = PathWalk::path(&read.model, &causes, *window);
        items.extend(item_rows(read, &causes, *window, &pieces, &mut left));
        let next = positions.entry(window.run).or_default();
        for piece in pieces {
            segments.push(segment_row(read, *window, *next, &piece));
            *next += 1;
        }
    }
    (segments, items)
}

fn run_id(read: &ReadProgram, place: usize) -> RunId {
    RunId(read.runs.get(place).copied().unwrap_or(0))
}

fn segment_row(read: &ReadProgram, window: StepWindow, position: u64, piece: &PathPiece) -> CriticalSegment {
    let work = piece.work.and_then(|place| read.model.works.get(place));
    CriticalSegment {
        run_id: run_id(read, window.run),
        position,
        program_step: window.program_step,
        at_run_id: run_id(read, piece.run),
        kind: OpenWord(piece.item.word().into()),
        begin_ns: piece.time.0,
        duration_ns: piece.time.1 - piece.time.0,
        activity_id: work.map(|work| work.activity_id),
        kernel_id: piece.kernel_id.map(KernelId),
        op_id: piece.op_id.map(OpId),
        relation: OpenWord(piece.relation.into()),
    }
}

/// The items of a path, each with the time of the step without it.
fn item_rows(
    read: &ReadProgram,
    causes: &CauseTable,
    window: StepWindow,
    pieces: &[PathPiece],
    left: &mut usize,
) -> Vec<CriticalItem> {
    let mut sums: BTreeMap<&PathItem, (i64, u64)> = BTreeMap::new();
    for piece in pieces {
        let (path_ns, count) = sums.entry(&piece.item).or_default();
        *path_ns += piece.time.1 - piece.time.0;
        *count += 1;
    }
    let mut sums: Vec<_> = sums.into_iter().collect();
    sums.sort_by_key(|(_, (path_ns, _))| std::cmp::Reverse(*path_ns));
    let replay = StepReplay::new(&read.model, causes, window);
    let mut row = |(place, (item, (path_ns, segment_count))): (usize, (&PathItem, (i64, u64)))| {
        let is_replayed = place < MAX_ITEMS && *item != PathItem::Unknown && *left >= replay.moments();
        *left = left.saturating_sub(if is_replayed { replay.moments() } else { 0 });
        CriticalItem {
            run_id: run_id(read, window.run),
            program_step: window.program_step,
            kind: OpenWord(item.word().into()),
            function_id: item.function().map(FunctionId),
            name: item.name().map(str::to_owned),
            segment_count,
            path_ns,
            step_ns: window.time.1 - window.time.0,
            without_ns: is_replayed.then(|| replay.duration_without(item)),
        }
    };
    sums.into_iter().enumerate().map(&mut row).collect()
}

/// One of the tables.
#[derive(Debug)]
pub struct CriticalTable {
    paths: Arc<CriticalPaths>,
    kind: CriticalTableKind,
    schema: SchemaRef,
}

impl CriticalTable {
    /// A table of the paths.
    pub fn new(paths: Arc<CriticalPaths>, kind: CriticalTableKind) -> Self {
        Self { paths, kind, schema: plain(&kind.table().schema()) }
    }

    /// Number of rows, if they were computed.
    pub fn known_rows(&self) -> Option<usize> {
        let [segments, items] = self.paths.rows.get()?;
        Some(if self.kind == CriticalTableKind::Segment { segments.num_rows() } else { items.num_rows() })
    }
}

#[async_trait]
impl TableProvider for CriticalTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        _state: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        _limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let [segments, items] = self.paths.rows.get_or_try_init(|| self.paths.rows()).await?;
        let rows = if self.kind == CriticalTableKind::Segment { segments } else { items };
        let rows = RecordBatch::try_new(Arc::clone(&self.schema), rows.columns().to_vec())?;
        Ok(MemorySourceConfig::try_new_exec(&[vec![rows]], Arc::clone(&self.schema), projection.cloned())?)
    }
}
