//! The rows of `run`: facts from each process at its start, later facts, facts from `stallmap-record`.

use std::collections::{BTreeMap, BTreeSet};

use stallmap_config::progress::RunProgress;
use stallmap_config::{PassInstrument, RecordingOption};
use stallmap_schema::capture::recording::RunFact;
use stallmap_schema::id::{ModuleId, RunId};
use stallmap_schema::tables::run::{Run, RunOption};
use stallmap_schema::word::{Instrument, LossKind};

use crate::code::RecordedModules;
use crate::hlo;
use crate::hooks;
use crate::loss::LossTotals;
use crate::pairing::{self, PairedProcess};
use crate::recording::{OpenedRecording, RunFolder};
use crate::rows::{IdBases, RunRows};
use crate::summary::CountedAccesses;

/// One run on its way into the capture.
#[derive(Debug)]
pub(crate) struct RunState {
    pub(crate) row: Run,
    pub(crate) rows: RunRows,
    /// Offsets from the run's own identifiers to those of the capture.
    pub(crate) bases: IdBases,
    /// True if the process reported that it had written everything.
    pub(crate) clean_end: bool,
    /// Rows of `gpu_activity`, which are written before the summary is made.
    pub(crate) activity_count: u64,
    /// Rows of `block_time`, as above.
    pub(crate) block_count: u64,
    /// Sums of the rows of `access_summary`.
    pub(crate) counted: CountedAccesses,
    /// Index among the folder's runs.
    pub(crate) folder_index: usize,
    /// The modules that its samples name by CUPTI's CRC: of the cubins as this run loaded them.
    pub(crate) crcs: BTreeMap<u64, BTreeSet<ModuleId>>,
    /// Ordinals of its launches whose measurements do not count, with the reason. None but in replays.
    pub(crate) unusable: BTreeMap<u64, &'static str>,
}

impl RunState {
    pub(crate) fn run_id(&self) -> RunId {
        self.row.run_id
    }

    /// True if the run hooked nothing of Python but regions, because it measures the program's own time.
    pub(crate) fn is_without_python(&self) -> bool {
        let is_continuous = |row: &RunOption| row.name == "sampling" && row.value == "continuous";
        match self.row.instrument {
            Instrument::Timeline | Instrument::Blocks => true,
            Instrument::PcSamples => self.rows.options.iter().any(is_continuous),
            _ => false,
        }
    }

    pub(crate) fn is_reference(&self) -> bool {
        self.row.reference_run_id == self.row.run_id
    }

    /// Reads the run's rows. Its identifiers count on from the bases, which are then those of the next run.
    pub(crate) fn read(
        &mut self,
        folder: &OpenedRecording,
        modules: &RecordedModules,
        bases: &mut IdBases,
        losses: &mut LossTotals,
    ) {
        self.read_rows(folder, losses);
        bases.hlo_modules += hlo::attribute(self, folder, modules, bases.hlo_modules, losses);
        let next = bases.after(&self.rows.last_ids());
        self.bases = std::mem::replace(bases, next);
        self.rows.globalize(self.row.run_id, &self.bases);
    }

    fn read_rows(&mut self, folder: &OpenedRecording, losses: &mut LossTotals) {
        if let Some(segment) = folder.segment(self.folder_index) {
            self.rows.read(segment, self.row.run_id, losses);
        }
    }
}

/// Opens every run of a recording: what describes it is read, and the rest with [`RunState::read`].
pub(crate) fn open(folder: &OpenedRecording, losses: &mut LossTotals) -> Vec<RunState> {
    let mut runs = open_as(folder, (1..).map(RunId), losses);
    refer(&mut runs, folder, losses);
    for (part, failures) in folder.hook_failures() {
        let is_of_part =
            |run: &&RunState| folder.runs.get(run.folder_index).is_some_and(|run| run.part == part);
        hooks::count(failures, &runs.iter().filter(is_of_part).collect::<Vec<_>>(), losses);
    }
    runs
}

/// Reads the runs of a folder that replayed launches of a capture, under these numbers.
pub(crate) fn read_replays(
    folder: &OpenedRecording,
    ids: Vec<RunId>,
    losses: &mut LossTotals,
) -> Vec<RunState> {
    let mut runs = open_as(folder, ids.into_iter(), losses);
    for run in &mut runs {
        run.read_rows(folder, losses);
        run.rows.name_run(run.row.run_id);
    }
    runs
}

fn open_as(
    folder: &OpenedRecording,
    ids: impl Iterator<Item = RunId>,
    losses: &mut LossTotals,
) -> Vec<RunState> {
    ids.zip(folder.runs.iter().enumerate())
        .map(|(run_id, (index, run))| open_run(run_id, index, run, folder, losses))
        .collect()
}

fn open_run(
    run_id: RunId,
    folder_index: usize,
    run: &RunFolder,
    folder: &OpenedRecording,
    losses: &mut LossTotals,
) -> RunState {
    let mut rows = match &run.segment {
        Ok(segment) => RunRows::open(segment, run_id, losses),
        Err(cause) => {
            let detail = losses.add(run_id, LossKind::Segment, "segment cannot be read", 1);
            detail.get_or_insert_with(|| cause.clone());
            RunRows::default()
        }
    };
    if let Some(reserve) = &run.reserve {
        rows.open_reserve(reserve);
    }
    rows.settle_losses();
    let mut row = rows.run.first().cloned().unwrap_or_else(|| unseen_run(run_id, run, folder));
    row.run_id = run_id;
    let clean_end = apply_facts(&mut row, &rows.facts);
    if let Some(pass) = folder.pass(run) {
        let recording = folder.recording(run);
        row.program.clone_from(&recording.program);
        row.arguments = serde_json::to_string(&recording.arguments).unwrap_or_default();
        row.ended_ns = row.ended_ns.or(pass.ended_ns);
        row.exit_code = row.exit_code.or(pass.exit_code);
        row.exit_signal = row.exit_signal.or(pass.exit_signal);
    }
    if !clean_end {
        losses.add(run_id, LossKind::Segment, "the process ended before it had written everything", 1);
        if let Some(progress) = &run.progress {
            lose_unwritten(run_id, progress, rows.found, losses);
        }
    }
    rows.options = options(run_id, &rows.options, &folder.recording(run).options);
    let mut crcs: BTreeMap<u64, BTreeSet<ModuleId>> = BTreeMap::new();
    for row in &rows.modules {
        if let Some(crc) = row.cupti_crc {
            crcs.entry(crc).or_default().insert(row.module_id);
        }
    }
    let (bases, unusable) = (IdBases::default(), BTreeMap::new());
    RunState {
        row,
        rows,
        bases,
        clean_end,
        activity_count: 0,
        block_count: 0,
        counted: CountedAccesses::default(),
        folder_index,
        crcs,
        unusable,
    }
}

/// Counts what a process had recorded that is not among the rows and frames found.
fn lose_unwritten(
    run_id: RunId,
    progress: &RunProgress,
    (rows, frames): (u64, u64),
    losses: &mut LossTotals,
) {
    let (missing_rows, missing_frames) = progress.missing(rows, frames);
    let (unwritten_rows, unwritten_frames) = progress.unwritten(rows, frames);
    for (reason, count) in [
        ("written row is missing", missing_rows.saturating_add(missing_frames)),
        ("row was not written when the process ended", unwritten_rows),
        ("records were not written when the process ended", unwritten_frames),
    ] {
        losses.add(run_id, LossKind::Segment, reason, count);
    }
}

/// Reasons of a process that another pass lacks, by that pass.
const ALONE: [(Instrument, &str); 4] = [
    (Instrument::Accesses, "no process of the accesses pass is this one"),
    (Instrument::PcSamples, "no process of the sampling pass is this one"),
    (Instrument::Timeline, "no process of the timeline pass is this one"),
    (Instrument::Blocks, "no process of the blocks pass is this one"),
];

/// The runs of a later pass refer to the first pass's run of the same process. See [`pairing`]. Every other run is its
/// own reference, and is counted where it launched something and the other pass has processes to find it among.
fn refer(runs: &mut [RunState], folder: &OpenedRecording, losses: &mut LossTotals) {
    for run in runs.iter_mut() {
        run.row.reference_run_id = run.row.run_id;
    }
    let has = |pass: &Instrument| runs.iter().any(|run| run.row.instrument == *pass);
    let passes: Vec<(Instrument, &str)> = ALONE.into_iter().filter(|(pass, _)| has(pass)).collect();
    let Some(((first, not_in_first), later)) = passes.split_first() else { return };
    let (references, mut others): (Vec<&mut RunState>, Vec<&mut RunState>) =
        runs.iter_mut().partition(|run| run.row.instrument == *first);
    for (pass, not_in_pass) in later {
        let (mut group, rest): (Vec<&mut RunState>, Vec<&mut RunState>) =
            others.into_iter().partition(|run| run.row.instrument == *pass);
        others = rest;
        let pairs = pairing::pair(&processes(&references, folder), &processes(&group, folder));
        for (run, reference) in group.iter_mut().zip(&pairs) {
            let reference = reference.and_then(|index| references.get(index)).map(|run| run.run_id());
            // The reference is written first. It comes first, unless a damaged row names another pass than its folder.
            run.row.reference_run_id = reference.filter(|id| *id < run.run_id()).unwrap_or(run.run_id());
        }
        let paired: BTreeSet<RunId> = group.iter().map(|run| run.row.reference_run_id).collect();
        let alone = group.iter().filter(|run| run.is_reference()).map(|run| (run, not_in_first));
        let without = references.iter().filter(|run| !paired.contains(&run.run_id()));
        for (run, reason) in alone.chain(without.map(|run| (run, not_in_pass))) {
            if run.rows.has_launches {
                losses.add(run.run_id(), LossKind::Source, reason, 1);
            }
        }
    }
}

fn processes<'a>(runs: &'a [&mut RunState], folder: &OpenedRecording) -> Vec<PairedProcess<'a>> {
    let process = |run: &'a &mut RunState| PairedProcess {
        rank: run.row.rank,
        part: folder.runs.get(run.folder_index).map_or(0, |run| run.part),
        role: (&run.row.program, &run.row.arguments),
        started_ns: run.row.started_ns,
        has_launches: run.rows.has_launches,
    };
    runs.iter().map(process).collect()
}

fn apply_facts(row: &mut Run, facts: &[RunFact]) -> bool {
    let mut clean_end = false;
    for RunFact { name, value } in facts {
        match name.as_str() {
            "ended_ns" => row.ended_ns = value.parse().ok().or(row.ended_ns),
            "exit_code" => row.exit_code = value.parse().ok().or(row.exit_code),
            "driver_version" => row.driver_version = Some(value.clone()),
            "cuda_version" => row.cuda_version = value.parse().ok().or(row.cuda_version),
            "instrument_version" => row.instrument_version = Some(value.clone()),
            "python_version" => row.python_version = Some(value.clone()),
            "torch_version" => row.torch_version = Some(value.clone()),
            "sampling_period_cycles" => {
                row.sampling_period_cycles = value.parse().ok().or(row.sampling_period_cycles);
            }
            "clean_end" => clean_end = value == "true",
            _ => {}
        }
    }
    clean_end
}

/// A run whose own row was lost.
fn unseen_run(run_id: RunId, run: &RunFolder, folder: &OpenedRecording) -> Run {
    let recording = folder.recording(run);
    Run {
        run_id,
        instrument: match run.name.instrument {
            PassInstrument::Accesses => Instrument::Accesses,
            PassInstrument::PcSamples => Instrument::PcSamples,
            PassInstrument::Counters => Instrument::Counters,
            PassInstrument::Native => Instrument::Native,
            PassInstrument::Timeline => Instrument::Timeline,
            PassInstrument::Blocks => Instrument::Blocks,
        },
        reference_run_id: run_id,
        program: recording.program.clone(),
        arguments: serde_json::to_string(&recording.arguments).unwrap_or_default(),
        working_directory: recording.working_directory.clone(),
        host: run.name.origin.as_ref().map(|origin| origin.host.clone()).unwrap_or_default(),
        process_id: run.name.process_id,
        started_ns: folder.pass(run).map_or(recording.created_ns, |pass| pass.started_ns),
        ..Run::default()
    }
}

/// The options of the command line, then those that the process added.
fn options(run_id: RunId, own: &[RunOption], given: &[RecordingOption]) -> Vec<RunOption> {
    let given = given.iter().map(|option| RunOption {
        run_id,
        name: option.name.clone(),
        value: option.value.clone(),
    });
    let mut names = BTreeSet::new();
    let mut options: Vec<RunOption> =
        given.chain(own.iter().cloned()).filter(|option| names.insert(option.name.clone())).collect();
    options.sort_by(|a, b| a.name.cmp(&b.name));
    options
}
