//! `launch_phase` in a schema: computed at its first use, from small tables.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::RecordBatch;
use async_trait::async_trait;
use datafusion::error::Result;
use datafusion::physical_plan::ExecutionPlan;
use stallmap_schema::id::{KernelId, RunId};
use stallmap_schema::table::{TableDef, TableRow as _};
use stallmap_tables::captured::CapturedTable;
use stallmap_tables::derived::OpenWord;
use stallmap_tables::provider::{DerivedRows, DerivedScan, RowCount, captured, read_all};
use tokio::sync::OnceCell;

use super::nested;
use super::period::StepCuts;
use super::phases::{SequencePhase, SetupPart, phases};
use super::ranges::RangeSpans;
use super::read::{LaunchKey, SOURCES, SequenceProcess, processes};
use super::recorded::{by_optimizer, by_ranges};
use super::row::LaunchPhase;
use super::sequence::{LaunchSequence, SequenceLaunch};

/// The phases of a capture's launches.
#[derive(Debug)]
pub struct PhaseRows {
    /// The tables that [`SOURCES`] names, in its order.
    sources: [Arc<CapturedTable>; SOURCES.len()],
    rows: OnceCell<RecordBatch>,
}

impl PhaseRows {
    /// Over the tables of a capture, found by name.
    pub fn new(table: impl Fn(&str) -> Option<Arc<CapturedTable>>) -> Option<Self> {
        Some(Self { sources: captured(&SOURCES, table)?, rows: OnceCell::new() })
    }

    /// Its rows.
    pub(crate) async fn batch(&self) -> Result<RecordBatch> {
        self.rows.get_or_try_init(|| async { self.rows() }).await.cloned()
    }

    fn rows(&self) -> Result<RecordBatch> {
        let mut rows = Vec::new();
        for (run, process) in processes(&read_all(&self.sources, &SOURCES)?)? {
            rows.extend(rows_of(run, process));
        }
        set_aside(&mut rows);
        rows.sort_unstable_by_key(|row| row.kernel_id.0);
        Ok(LaunchPhase::batch(rows)?)
    }
}

/// Takes work out of the repeated part if other processes name their steps, or are the only ones with any.
fn set_aside(rows: &mut [LaunchPhase]) {
    let sureness = |row: &LaunchPhase| match (row.program_step, &*row.found_by.0) {
        (None, _) => 0,
        (Some(_), "period") => 1,
        (Some(_), _) => 2,
    };
    let mut runs: BTreeMap<u32, u8> = BTreeMap::new();
    for row in &*rows {
        let most = runs.entry(row.run_id.0).or_default();
        *most = sureness(row).max(*most);
    }
    let best = runs.values().copied().max().unwrap_or_default();
    let is_apart = |row: &&mut LaunchPhase| runs.get(&row.run_id.0).is_some_and(|sure| *sure < best);
    for row in rows.iter_mut().filter(is_apart) {
        (row.program_step, row.step_begin_ns, row.step_end_ns) = (None, None, None);
        (row.found_by, row.confidence) = (OpenWord("none".into()), None);
        if row.setup_part.is_none() {
            row.program_phase = OpenWord(SequencePhase::Apart.word().into());
        }
    }
}

/// Launches in program order. Where calls are not known, kernels of a trace that were launched before it began stand among
/// its calls: there, the order is that of the GPU.
fn in_order(launches: BTreeMap<u64, (LaunchKey, SequenceLaunch)>) -> Vec<(LaunchKey, SequenceLaunch)> {
    let calls = launches.values().filter(|(_, launch)| launch.has_call).count();
    let are_mixed = calls > 0 && calls < launches.len();
    let are_timed = launches.values().all(|(_, launch)| launch.gpu_ns.is_some());
    let mut launches: Vec<_> = launches.into_values().collect();
    if are_mixed && are_timed {
        launches.sort_by_key(|(_, launch)| launch.gpu_ns);
    }
    launches
}

/// Rows of one process.
fn rows_of(run: u32, process: SequenceProcess) -> Vec<LaunchPhase> {
    let (trials, launches): (Vec<_>, Vec<_>) =
        in_order(process.launches).into_iter().partition(|(_, launch)| launch.is_trial);
    let sequence = LaunchSequence::from_launches(launches);
    let (certain, plain) = process.ranges.into_steps();
    let ranged = |ranges: &RangeSpans| Some(("range", by_ranges(&sequence, ranges)?));
    let found = certain.iter().find_map(ranged);
    let found = found.or_else(|| Some(("optimizer", by_optimizer(&sequence)?)));
    let found = found.or_else(|| ranged(&plain));
    let found = found.or_else(|| Some(("period", nested::steps(&sequence)?)));
    let (found_by, steps) = found.map_or(("none", None), |(found_by, steps)| (found_by, Some(steps)));
    let range = |phase: SequencePhase| {
        let SequencePhase::Steady(_, cut) = phase else { return None };
        steps.as_ref().and_then(|steps: &StepCuts| steps.ranges.get(cut).copied())
    };
    let row = |launch: &SequenceLaunch, phase: SequencePhase| LaunchPhase {
        kernel_id: KernelId(launch.kernel_id),
        run_id: RunId(run),
        program_phase: OpenWord(phase.word().into()),
        setup_part: phase.setup_part().map(|part| OpenWord(part.into())),
        program_step: phase.step(),
        step_begin_ns: range(phase).map(|(begin, _)| begin),
        step_end_ns: range(phase).map(|(_, end)| end),
        found_by: OpenWord(found_by.into()),
        confidence: steps.as_ref().map(|steps: &StepCuts| steps.confidence),
    };
    let found = phases(&sequence, steps.as_ref());
    let untried = sequence.launches.iter().zip(found).map(|(launch, phase)| row(launch, phase));
    let tuning = SequencePhase::Setup(SetupPart::Tuning);
    untried.chain(trials.iter().map(|(_, launch)| row(launch, tuning))).collect()
}

#[async_trait]
impl DerivedRows for PhaseRows {
    fn table(&self) -> TableDef {
        LaunchPhase::TABLE
    }

    /// One for each launch.
    fn row_count(&self) -> RowCount {
        let [launch, ..] = &self.sources;
        RowCount::Unknown.or(usize::try_from(launch.rows()).ok())
    }

    async fn plan(&self, scan: DerivedScan<'_>) -> Result<Arc<dyn ExecutionPlan>> {
        scan.over(&[self.batch().await?])
    }
}
