//! The folder of a recording: its description, its cubins, and one folder for each run.

use std::fs;
use std::path::{Path, PathBuf};

use stallmap_config::PassInstrument;
use stallmap_config::folder::{RunName, host_word};
use stallmap_config::progress::{self, RunProgress};
use stallmap_config::recording::{RECORDING_FILE, RecordingFile, RecordingPass};
use stallmap_schema::capture::segment::{self, FrameKind, SegmentFrame, SegmentReader};
use stallmap_schema::table::TableRow;
use stallmap_schema::tables::run::Run;

use crate::error::FinishError;
use crate::file;
use crate::hooks::{self, HookFailure};

/// Frames at the start of a segment among which the run's own row is: a flush writes one for each table.
const FIRST_FRAMES: usize = 64;

/// The folder of a recording, opened. Or those of one program's recordings on several hosts, as one.
#[derive(Debug)]
pub(crate) struct OpenedRecording {
    /// At least one.
    parts: Vec<ProgramFolder>,
    /// The runs in the order of their run_ids: access runs, sampling runs, timelines. In one folder, the program's own
    /// process comes before its children. Otherwise runs are in the order of rank and start.
    pub(crate) runs: Vec<RunFolder>,
}

/// The folder of one `stallmap-record`.
#[derive(Debug)]
struct ProgramFolder {
    path: PathBuf,
    /// The facts from `stallmap-record`. Default values if the file is missing or damaged.
    recording: RecordingFile,
    /// Failures of its Python hooks, and losses of its passes.
    hook_failures: Vec<HookFailure>,
}

/// One process's folder.
#[derive(Debug)]
pub(crate) struct RunFolder {
    pub(crate) name: RunName,
    /// Index of the recording's folder that holds it.
    pub(crate) part: usize,
    /// Its rows. The error's text where they cannot be read at all.
    pub(crate) segment: Result<SegmentReader, String>,
    /// Rows that were written when the disk was full.
    pub(crate) reserve: Option<SegmentReader>,
    /// The counts of its rows. Null where its folder has none.
    pub(crate) progress: Option<RunProgress>,
    /// The process's own row. Null where it was lost.
    row: Option<Run>,
}

impl OpenedRecording {
    /// Opens the folder of one recording.
    pub(crate) fn open(path: &Path) -> Result<Self, FinishError> {
        let (part, mut runs) = ProgramFolder::open(path, 0)?;
        runs.sort_by_cached_key(|run| {
            let passes = &part.recording.passes;
            let own = passes.iter().position(|pass| run.is_of(pass, &part.recording));
            (run.kind(), own.unwrap_or(passes.len()), run.order())
        });
        Ok(Self { parts: vec![part], runs })
    }

    /// Opens the folders of several recordings of one program.
    pub(crate) fn merge(paths: &[&Path]) -> Result<Self, FinishError> {
        let (mut parts, mut runs) = (Vec::new(), Vec::new());
        for (index, path) in paths.iter().enumerate() {
            let (part, own) = ProgramFolder::open(path, index)?;
            parts.push(part);
            runs.extend(own);
        }
        if parts.is_empty() {
            let cause = "no folder is named".to_owned();
            return Err(FinishError::NoRecording { cause, path: PathBuf::new() });
        }
        runs.sort_by_cached_key(|run| (run.kind(), run.order()));
        Ok(Self { parts, runs })
    }

    /// The segment of a run, by the run's index.
    pub(crate) fn segment(&self, run: usize) -> Option<&SegmentReader> {
        self.runs.get(run)?.segment.as_ref().ok()
    }

    /// The facts from `stallmap-record` about the recording that a run is part of.
    pub(crate) fn recording(&self, run: &RunFolder) -> &RecordingFile {
        static UNKNOWN: std::sync::OnceLock<RecordingFile> = std::sync::OnceLock::new();
        let part = self.parts.get(run.part);
        part.map_or_else(|| UNKNOWN.get_or_init(RecordingFile::default), |part| &part.recording)
    }

    /// The pass whose own process a run is: where the process executed several programs, the last of them, because the
    /// pass knows how that one ended.
    pub(crate) fn pass(&self, run: &RunFolder) -> Option<&RecordingPass> {
        let recording = self.recording(run);
        let pass = recording.passes.iter().find(|pass| run.is_of(pass, recording))?;
        let is_later = |other: &&RunFolder| {
            other.part == run.part && other.is_of(pass, recording) && other.start_ns() > run.start_ns()
        };
        self.runs.iter().find(is_later).is_none().then_some(pass)
    }

    /// The failures of the Python hooks and the losses of passes, for each recording's folder by its index.
    pub(crate) fn hook_failures(&self) -> impl Iterator<Item = (usize, &[HookFailure])> {
        self.parts.iter().map(|part| part.hook_failures.as_slice()).enumerate()
    }

    /// The folder of the recording that a run is part of, by the run's index.
    pub(crate) fn folder(&self, run: usize) -> Option<&Path> {
        self.parts.get(self.runs.get(run)?.part).map(|part| part.path.as_path())
    }

    /// The folders of cubins.
    pub(crate) fn cubins(&self) -> Vec<PathBuf> {
        self.parts.iter().map(|part| part.path.join("cubins")).collect()
    }
}

impl ProgramFolder {
    fn open(path: &Path, index: usize) -> Result<(Self, Vec<RunFolder>), FinishError> {
        let entries = fs::read_dir(path).map_err(FinishError::io("open recording", path))?;
        let recording = file::read(&path.join(RECORDING_FILE), file::MAX_BYTES).ok();
        let recording: RecordingFile =
            recording.and_then(|json| serde_json::from_slice(&json).ok()).unwrap_or_default();
        let runs: Vec<RunFolder> = entries
            .filter_map(Result::ok)
            .filter_map(|entry| RunFolder::open(&entry.path(), index))
            .collect();
        if runs.is_empty() {
            let cause = "it holds no run's folder".to_owned();
            return Err(FinishError::NoRecording { cause, path: path.to_owned() });
        }
        let mut hook_failures = hooks::read(path);
        hook_failures.extend(hooks::of_passes(&recording.passes));
        Ok((Self { path: path.to_owned(), recording, hook_failures }, runs))
    }
}

impl RunFolder {
    fn open(path: &Path, part: usize) -> Option<Self> {
        let name: RunName = path.file_name()?.to_str()?.parse().ok()?;
        let segment = SegmentReader::open(&path.join(segment::FILE_NAME)).map_err(|error| error.to_string());
        // A reserve that was never needed is all zero, and not a segment.
        let reserve = SegmentReader::open(&path.join(segment::RESERVE_FILE_NAME)).ok();
        let row = segment.as_ref().ok().and_then(own_row);
        let progress = read_progress(&path.join(progress::FILE_NAME));
        Some(Self { name, part, segment, reserve, progress, row })
    }

    /// Sort key of kinds of runs: a run refers to one of an earlier kind.
    fn kind(&self) -> u8 {
        match self.name.instrument {
            PassInstrument::Accesses | PassInstrument::Counters | PassInstrument::Native => 0,
            PassInstrument::PcSamples => 1,
            PassInstrument::Timeline => 2,
            PassInstrument::Blocks => 3,
        }
    }

    /// Sort key of runs of one kind: rank (those without one come last), start, process.
    fn order(&self) -> (u32, i64, u32) {
        let rank = self.row.as_ref().and_then(|row| row.rank).unwrap_or(u32::MAX);
        (rank, self.start_ns(), self.name.process_id)
    }

    fn start_ns(&self) -> i64 {
        let named = || self.name.origin.as_ref().and_then(|origin| i64::try_from(origin.start_ns).ok());
        self.row.as_ref().map(|row| row.started_ns).or_else(named).unwrap_or(0)
    }

    /// True if it belongs to the process that a pass started. A process of another host may have the same id.
    fn is_of(&self, pass: &RecordingPass, recording: &RecordingFile) -> bool {
        let is_host = |origin: &stallmap_config::folder::SessionOrigin| {
            recording.host.is_empty() || origin.host == host_word(&recording.host)
        };
        pass.instrument == self.name.instrument
            && pass.process_id == self.name.process_id
            && self.name.origin.as_ref().is_none_or(is_host)
    }
}

/// The counts of a run, from a file that anyone may have put there.
fn read_progress(path: &Path) -> Option<RunProgress> {
    RunProgress::read(&file::read(path, progress::BYTES as u64).ok()?)
}

/// The row that the process wrote about itself.
fn own_row(segment: &SegmentReader) -> Option<Run> {
    let frames = segment.frames().iter().take(FIRST_FRAMES);
    frames.filter(|frame| frame.kind == Some(FrameKind::Rows)).find_map(|frame| {
        match segment.read(frame).ok()? {
            SegmentFrame::Rows { table, batch } if table == Run::TABLE.name => {
                Run::read_all(&batch).ok()?.pop()
            }
            _ => None,
        }
    })
}
