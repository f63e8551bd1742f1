//! The recording's folder, next to the capture. It is made before the program runs: this proves that both can be
//! written.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::{fs, io};

use anyhow::{Context as _, anyhow};
use stallmap_config::folder::{RunName, host_word};
use stallmap_config::rank::ProcessRank;
use stallmap_config::{PassInstrument, RECORDING_FILE, RecordingFile};

use crate::exit::RecorderFailure;

/// The end of the folder's name.
const SUFFIX: &str = ".partial";
/// The end of the name of the folder of replays.
const REPLAYS: &str = ".replays";

/// A recording's folder.
#[derive(Debug)]
pub(crate) struct RecordingFolder {
    path: PathBuf,
}

impl RecordingFolder {
    /// Makes the folder for the capture at `output`. `force` removes an earlier one.
    pub(crate) fn create(output: &Path, force: bool) -> Result<Self, RecorderFailure> {
        check_output(output, force)?;
        Self::make(&of_output(output), force)
    }

    /// Makes the folder for replays that go into the capture at `output`.
    pub(crate) fn of_replays(output: &Path, force: bool) -> Result<Self, RecorderFailure> {
        Self::make(&with_suffix(output, REPLAYS), force)
    }

    fn make(path: &Path, force: bool) -> Result<Self, RecorderFailure> {
        let path = absolute(path).map_err(RecorderFailure::before)?;
        if force && path.is_dir() {
            let removed = fs::remove_dir_all(&path);
            removed
                .with_context(|| format!("remove `{}`", path.display()))
                .map_err(RecorderFailure::before)?;
        }
        match fs::create_dir(&path) {
            Ok(()) => Ok(Self { path }),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let text = anyhow!("an earlier recording was not finished: `{}`", path.display());
                let recover = format!("stallmap-record recover {}", path.display());
                Err(RecorderFailure::before(text)
                    .hint(format_args!("run `{recover}`, or give it up with --force")))
            }
            Err(error) => {
                let text =
                    anyhow!(error).context(format!("make the recording's folder `{}`", path.display()));
                Err(RecorderFailure::before(text)
                    .hint("choose an output in a folder that exists and can be written"))
            }
        }
    }

    /// The folder's path, absolute: the program may change its own folder.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the description of this recording, replacing an earlier one.
    pub(crate) fn describe(&self, recording: &RecordingFile) -> anyhow::Result<()> {
        let (path, temporary) = (self.path.join(RECORDING_FILE), self.path.join(".recording.json"));
        let json = serde_json::to_vec_pretty(recording).context("describe the recording")?;
        let written = fs::write(&temporary, json).and_then(|()| fs::rename(&temporary, &path));
        written.with_context(|| format!("write `{}`", path.display()))
    }

    /// Number of processes that left rows under `instrument`.
    pub(crate) fn processes(&self, instrument: PassInstrument) -> usize {
        self.runs(instrument).count()
    }

    /// Gives up the rows that processes left under `instrument`.
    pub(crate) fn remove_runs(&self, instrument: PassInstrument) -> anyhow::Result<()> {
        self.runs(instrument).try_for_each(|path| {
            fs::remove_dir_all(&path).with_context(|| format!("remove `{}`", path.display()))
        })
    }

    fn runs(&self, instrument: PassInstrument) -> impl Iterator<Item = PathBuf> {
        let is_of = move |path: &PathBuf| {
            let name = path.file_name().and_then(|name| name.to_str()?.parse::<RunName>().ok());
            name.is_some_and(|name| name.instrument == instrument)
        };
        fs::read_dir(&self.path).into_iter().flatten().flatten().map(|entry| entry.path()).filter(is_of)
    }

    /// Bytes that can still be written here, where the system says so.
    pub(crate) fn free_bytes(&self) -> Option<u64> {
        let system = nix::sys::statvfs::statvfs(&self.path).ok()?;
        Some(system.blocks_available().saturating_mul(system.fragment_size()))
    }

    /// Removes the folder with its content.
    pub(crate) fn remove(&self) -> anyhow::Result<()> {
        fs::remove_dir_all(&self.path).with_context(|| format!("remove `{}`", self.path.display()))
    }
}

/// The capture that this process writes if `mpirun` or `srun` started one `stallmap-record` for each of several ranks
/// with one name: `NAME.rankN.stallmap`. No rank overwrites another's.
pub(crate) fn of_rank(output: &Path, rank: Option<ProcessRank>) -> PathBuf {
    let rank = rank.filter(|rank| rank.world_size.is_none_or(|size| size > 1));
    let Some((rank, name)) = rank.zip(output.file_name()) else { return output.to_owned() };
    let (stem, end) = match (Path::new(name).file_stem(), Path::new(name).extension()) {
        (Some(stem), Some(end)) => (stem, Some(end)),
        _ => (name, None),
    };
    let mut name = stem.to_owned();
    name.push(format!(".rank{}", rank.rank));
    if let Some(end) = end {
        name.push(".");
        name.push(end);
    }
    output.with_file_name(name)
}

/// The recording's folder of the capture at `output`.
pub(crate) fn of_output(output: &Path) -> PathBuf {
    with_suffix(output, SUFFIX)
}

/// The capture that a recording's folder is of, where its name says so.
pub(crate) fn output_of(folder: &Path) -> Option<PathBuf> {
    without_suffix(folder, SUFFIX)
}

/// The capture that replays in a folder go into, where its name says so.
pub(crate) fn output_of_replays(folder: &Path) -> Option<PathBuf> {
    without_suffix(folder, REPLAYS)
}

/// This host's name, as the folders of its processes have it.
pub(crate) fn host() -> String {
    host_word(fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim())
}

fn with_suffix(output: &Path, suffix: &str) -> PathBuf {
    let mut name = output.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

fn without_suffix(folder: &Path, suffix: &str) -> Option<PathBuf> {
    let name = folder.file_name()?.to_str()?.strip_suffix(suffix)?;
    Some(folder.with_file_name(OsString::from(name)))
}

/// Refuses to overwrite without `--force`, and to replace anything but a file.
pub(crate) fn check_output(output: &Path, force: bool) -> Result<(), RecorderFailure> {
    if output.file_name().is_none() {
        return Err(RecorderFailure::before(anyhow!(
            "the output is not a file name: `{}`",
            output.display()
        )));
    }
    match fs::symlink_metadata(output) {
        Err(_) => Ok(()),
        Ok(metadata) if metadata.is_dir() => {
            let text = anyhow!("the output is a folder: `{}`", output.display());
            Err(RecorderFailure::before(text).hint("choose another name, or remove the folder"))
        }
        Ok(_) if force => Ok(()),
        Ok(_) => {
            let text = anyhow!("the output exists: `{}`", output.display());
            Err(RecorderFailure::before(text).hint("choose another name, or replace it with --force"))
        }
    }
}

fn absolute(path: &Path) -> anyhow::Result<PathBuf> {
    std::path::absolute(path).with_context(|| format!("find the folder of `{}`", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_have_names_of_their_own() {
        let rank = |rank, world_size| Some(ProcessRank { rank, local_rank: None, world_size });
        let name = |output: &str, rank| of_rank(output.as_ref(), rank).display().to_string();
        assert_eq!(name("a/step.stallmap", rank(3, Some(8))), "a/step.rank3.stallmap");
        assert_eq!(name("a.b/step", rank(0, None)), "a.b/step.rank0");
        assert_eq!(name("step.stallmap", rank(0, Some(1))), "step.stallmap", "one rank needs no number");
        assert_eq!(name("step.stallmap", None), "step.stallmap");
    }
}
