//! The folder of a recording: its description, its cubins, and one folder for each run.

use std::fs;
use std::path::{Path, PathBuf};

use stallmap_config::Instrument;
use stallmap_config::recording::{Pass, RECORDING_FILE, Recording};
use stallmap_schema::capture::segment::{self, SegmentReader};

use crate::error::FinishError;

/// A recording's folder, opened.
#[derive(Debug)]
pub(crate) struct Folder {
    pub(crate) path: PathBuf,
    /// What `stallmap-record` knew; its default where the file is missing or damaged.
    pub(crate) recording: Recording,
    /// The runs in the order of their run_ids: access runs first, the program's own process before its children.
    pub(crate) runs: Vec<RunFolder>,
}

/// One process's folder.
#[derive(Debug)]
pub(crate) struct RunFolder {
    pub(crate) instrument: Instrument,
    pub(crate) process_id: u32,
    /// Its rows; the error's text where they cannot be read at all.
    pub(crate) segment: Result<SegmentReader, String>,
}

impl Folder {
    pub(crate) fn open(path: &Path) -> Result<Self, FinishError> {
        let entries = fs::read_dir(path).map_err(FinishError::io("open recording", path))?;
        let recording = fs::read(path.join(RECORDING_FILE)).ok();
        let recording: Recording =
            recording.and_then(|json| serde_json::from_slice(&json).ok()).unwrap_or_default();
        let mut runs: Vec<RunFolder> =
            entries.filter_map(Result::ok).filter_map(|entry| RunFolder::open(&entry.path())).collect();
        if runs.is_empty() {
            let cause = "it holds no run's folder".to_owned();
            return Err(FinishError::NoRecording { cause, path: path.to_owned() });
        }
        runs.sort_by_key(|run| {
            let passes = &recording.passes;
            let own = passes.iter().position(|pass| run.is_of(pass)).unwrap_or(passes.len());
            (run.instrument == Instrument::PcSamples, own, run.process_id)
        });
        Ok(Self { path: path.to_owned(), recording, runs })
    }

    /// The pass whose own process a run is.
    pub(crate) fn pass(&self, run: &RunFolder) -> Option<&Pass> {
        self.recording.passes.iter().find(|pass| run.is_of(pass))
    }

    pub(crate) fn cubins(&self) -> PathBuf {
        self.path.join("cubins")
    }
}

impl RunFolder {
    fn open(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_str()?;
        let (instrument, process_id) = name.strip_prefix("run-")?.rsplit_once('-')?;
        let instrument = Instrument::ALL.into_iter().find(|known| known.word() == instrument)?;
        let process_id = process_id.parse().ok()?;
        let segment = SegmentReader::open(&path.join(segment::FILE_NAME)).map_err(|error| error.to_string());
        Some(Self { instrument, process_id, segment })
    }

    fn is_of(&self, pass: &Pass) -> bool {
        pass.instrument == self.instrument && pass.process_id == self.process_id
    }
}
