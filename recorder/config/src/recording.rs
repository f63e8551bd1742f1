//! Facts about a recording that only `stallmap-record` knows: `recording.json` in the recording's folder.
//!
//! It is written before the first pass and again after each: an interrupted recording still describes itself. A reader
//! takes absent fields as their defaults and ignores unknown ones.

use serde::{Deserialize, Serialize};

use crate::PassInstrument;

/// The name of the file in the recording's folder.
pub const RECORDING_FILE: &str = "recording.json";

/// A recording: a program, and the passes in which it was run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RecordingFile {
    /// The release of `stallmap-record`.
    pub recorder_version: String,
    /// Start of the recording, nanoseconds since the Unix epoch.
    pub created_ns: i64,
    /// The program as given.
    pub program: String,
    /// Its arguments as given.
    pub arguments: Vec<String>,
    /// The folder that it was started in.
    pub working_directory: String,
    /// The host that `stallmap-record` ran on, as folders' names have it. Empty in recordings of earlier releases.
    pub host: String,
    /// The recording's options: names as on the command line without dashes, values as text.
    pub options: Vec<RecordingOption>,
    /// The passes that began, in order.
    pub passes: Vec<RecordingPass>,
}

/// An option of the command line.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RecordingOption {
    /// The option's name, without dashes.
    pub name: String,
    /// Its value.
    pub value: String,
}

/// One run of the program under one instrument.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordingPass {
    /// The instrument. The process's folder is named by [`crate::folder::RunName`].
    pub instrument: PassInstrument,
    /// The process that was started. Processes that it started have folders of their own.
    pub process_id: u32,
    /// Its start, nanoseconds since the Unix epoch.
    pub started_ns: i64,
    /// Its end. Null while it runs, and if `stallmap-record` did not see the end.
    #[serde(default)]
    pub ended_ns: Option<i64>,
    /// Its exit code, where it exited.
    #[serde(default)]
    pub exit_code: Option<i32>,
    /// The signal that ended it, where one did.
    #[serde(default)]
    pub exit_signal: Option<i32>,
    /// Its losses that only `stallmap-record` sees.
    #[serde(default)]
    pub losses: Vec<PassLoss>,
}

/// Something that a pass did not record.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PassLoss {
    /// The reason, in a few words that group well.
    pub reason: String,
    /// The process or launch concerned.
    pub detail: String,
}

impl PassInstrument {
    /// Every instrument.
    pub const ALL: [Self; 6] =
        [Self::Accesses, Self::PcSamples, Self::Counters, Self::Native, Self::Timeline, Self::Blocks];

    /// The instrument's text in captures and in folders' names.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Accesses => "accesses",
            Self::PcSamples => "pc_samples",
            Self::Counters => "counters",
            Self::Native => "native",
            Self::Timeline => "timeline",
            Self::Blocks => "blocks",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_absent_has_its_default_and_what_is_unknown_is_ignored() {
        let json = r#"{"program": "a", "later": 1, "passes": [{"instrument": "pc_samples", "process_id": 7, "started_ns": 5}]}"#;
        let recording: RecordingFile = serde_json::from_str(json).unwrap();
        assert_eq!((recording.program.as_str(), recording.passes[0].exit_code), ("a", None));
        assert_eq!(recording.passes[0].instrument.word(), "pc_samples");
    }
}
