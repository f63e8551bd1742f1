//! The switch of a recording: a file in its folder that starts and stops recording in all its processes.

use std::fs;
use std::path::{Path, PathBuf};

use super::writer::WriterShared;

/// The file, and its last state.
pub(super) struct RecordingSwitch {
    path: PathBuf,
    last: Option<bool>,
}

impl RecordingSwitch {
    /// The switch of the recording in a folder.
    pub(super) fn new(folder: &Path) -> Self {
        Self { path: folder.join(stallmap_config::SWITCH), last: None }
    }

    /// Starts or stops recording where the file has changed since the last call. Between two changes the program may do
    /// so itself.
    pub(super) fn apply(&mut self, shared: &WriterShared) {
        let Some(is_on) = self.read().filter(|is_on| self.last != Some(*is_on)) else { return };
        shared.set_paused(!is_on);
        self.last = Some(is_on);
    }

    /// The state. None before the first change.
    fn read(&self) -> Option<bool> {
        match fs::read_to_string(&self.path).ok()?.trim() {
            "on" => Some(true),
            "off" => Some(false),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_change_counts_once() {
        let folder = tempfile::tempdir().unwrap();
        let (mut switch, shared) = (RecordingSwitch::new(folder.path()), WriterShared::new(folder.path()));
        shared.set_paused(true);
        let mut state_after = |text: Option<&str>| {
            text.inspect(|text| fs::write(folder.path().join(stallmap_config::SWITCH), text).unwrap());
            switch.apply(&shared);
            shared.is_paused()
        };
        assert!(state_after(None));
        assert!(!state_after(Some("on")));
        assert!(state_after(Some("off\n")));
        assert!(state_after(Some("neither")));
        assert!(!state_after(Some("on")));
        // The program stops recording itself.
        shared.set_paused(true);
        switch.apply(&shared);
        assert!(shared.is_paused());
    }
}
