//! A launch call that serialized sampling holds: the file [`FILE_NAME`] in the recording's folder.
//!
//! Sampling runs kernels one at a time, and CUPTI holds a launch call until its kernel has ended. A kernel that waits for
//! something behind that call never ends. The recorded process can only write that down: `stallmap-record` ends the run
//! and samples the program again, continuously.

use serde::{Deserialize, Serialize};

/// The name of the file.
pub const FILE_NAME: &str = "held-launch.json";

/// The launch whose call is held.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldLaunch {
    /// The process.
    pub process_id: u32,
    /// The kernel's mangled name.
    pub kernel: String,
    /// Seconds for which the call has been held.
    pub held_s: u64,
}

impl HeldLaunch {
    /// The content of the file.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string(self)
    }

    /// Reads the content of the file.
    pub fn from_json(json: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(json)
    }
}
