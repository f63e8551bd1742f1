//! The state of a sandbox: its parts that are in force.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The first version of Landlock's rules that covers the truncation of files.
const WHOLE_ABI: u32 = 3;

/// The parts of a sandbox that are in force.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SandboxState {
    /// Version of Landlock's rules, 0 where there are none.
    pub(crate) landlock_abi: u32,
    /// Parts that are not in force, each with its cause.
    pub(crate) gaps: Vec<String>,
}

impl SandboxState {
    /// True if every part is in force.
    pub(crate) fn is_whole(&self) -> bool {
        self.gaps.is_empty()
    }

    pub(crate) fn set_files(&mut self, abi: u32) {
        self.landlock_abi = abi;
        if abi < WHOLE_ABI {
            self.gaps.push(format!("files can be truncated: this kernel's Landlock has version {abi}"));
        }
    }
}

impl fmt::Display for SandboxState {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_whole() {
            let abi = self.landlock_abi;
            return write!(
                formatter,
                "other files, programs and the network are refused (Landlock {abi}, seccomp)"
            );
        }
        formatter.write_str(&self.gaps.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_landlock_is_a_gap() {
        let state = |abi| {
            let mut state = SandboxState::default();
            state.set_files(abi);
            state
        };
        assert!(state(3).is_whole() && !state(2).is_whole());
        assert_eq!(state(2).to_string(), "files can be truncated: this kernel's Landlock has version 2");
        assert!(state(7).to_string().contains("Landlock 7"));
    }
}
