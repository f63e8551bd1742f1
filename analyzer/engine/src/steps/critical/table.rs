//! `critical_segment` and `critical_item` in a schema: computed together at the first use of either.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use arrow::array::{Array as _, RecordBatch};
use arrow::datatypes::{UInt32Type, UInt64Type};
use async_trait::async_trait;
use datafusion::error::Result;
use datafusion::physical_plan::ExecutionPlan;
use stallmap_schema::id::{FunctionId, KernelId, OpId, RunId};
use stallmap_schema::table::{TableDef, TableRow as _};
use stallmap_tables::captured::CapturedTable;
use stallmap_tables::column::column;
use stallmap_tables::derived::OpenWord;
use stallmap_tables::provider::{DerivedRows, DerivedScan, DerivedTable, RowCount, captured, read_all};
use tokio::sync::OnceCell;

use super::causes::CauseTable;
use super::model::{PathItem, StepWindow};
use super::read::{ReadProgram, SOURCES, program};
use super::row::{CriticalItem, CriticalSegment};
use super::walk::{PathPiece, PathWalk};
use super::windows::{LaunchSteps, windows};
use super::without::StepReplay;
use crate::steps::read::texts;
use crate::steps::table::PhaseRows;

/// Items of a step that are left out in turn.
const MAX_ITEMS: usize = 24;
/// Moments of all steps that are computed again, over all items: a few seconds.
const MAX_MOMENTS: usize = 100_000_000;

/// The tables.
const TABLES: [TableDef; 2] = [CriticalSegment::TABLE, CriticalItem::TABLE];

/// The critical paths of a capture.
#[derive(Debug)]
struct CriticalPaths {
    /// The tables that [`SOURCES`] names, in its order.
    sources: [Arc<CapturedTable>; SOURCES.len()],
    phases: Arc<PhaseRows>,
    /// The rows of [`TABLES`].
    rows: OnceCell<[RecordBatch; 2]>,
}

impl CriticalPaths {
    async fn rows(&self) -> Result<[RecordBatch; 2]> {
        let phases = self.phases.batch().await?;
        let read = program(&read_all(&self.sources, &SOURCES)?)?;
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

fn run_id(read: &ReadProgram, index: usize) -> RunId {
    RunId(read.runs.get(index).copied().unwrap_or(0))
}

fn segment_row(read: &ReadProgram, window: StepWindow, position: u64, piece: &PathPiece) -> CriticalSegment {
    let work = piece.work.and_then(|index| read.model.works.get(index));
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
    let mut row = |(index, (item, (path_ns, segment_count))): (usize, (&PathItem, (i64, u64)))| {
        let is_replayed = index < MAX_ITEMS && *item != PathItem::Unknown && *left >= replay.moments();
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

/// The phases of a capture's launches, and the critical paths of its steps, over its tables by name.
pub fn tables(table: impl Fn(&str) -> Option<Arc<CapturedTable>>) -> Option<[DerivedTable; 3]> {
    let phases = Arc::new(PhaseRows::new(&table)?);
    let paths = CriticalPaths {
        sources: captured(&SOURCES, table)?,
        phases: Arc::clone(&phases),
        rows: OnceCell::new(),
    };
    let paths = Arc::new(paths);
    let [segments, items] =
        [0, 1].map(|at| DerivedTable::new(Arc::new(CriticalRows { paths: Arc::clone(&paths), at })));
    Some([DerivedTable::new(phases), segments, items])
}

/// The rows of one table.
#[derive(Debug)]
struct CriticalRows {
    paths: Arc<CriticalPaths>,
    /// Position in [`TABLES`].
    at: usize,
}

#[async_trait]
impl DerivedRows for CriticalRows {
    fn table(&self) -> TableDef {
        TABLES[self.at]
    }

    fn row_count(&self) -> RowCount {
        RowCount::Later.or(self.paths.rows.get().map(|rows| rows[self.at].num_rows()))
    }

    async fn plan(&self, scan: DerivedScan<'_>) -> Result<Arc<dyn ExecutionPlan>> {
        let rows = self.paths.rows.get_or_try_init(|| self.paths.rows()).await?;
        scan.over(std::slice::from_ref(&rows[self.at]))
    }
}
