//! The name of a process's folder in a recording: `run-<instrument>-<host>-<process id>-<start>`.
//!
//! Host and start separate runs with one process id: processes of several hosts on one file system, a process id
//! that came round again, and the programs that one process executes one after the other. Earlier releases wrote
//! `run-<instrument>-<process id>`, which is still read.

use std::fmt;
use std::str::FromStr;

use crate::PassInstrument;

/// Most bytes of a host's name in a folder's name: file systems allow 255 for all of it.
const MAX_HOST_BYTES: usize = 64;

/// The parts of a folder's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunName {
    /// The instrument.
    pub instrument: PassInstrument,
    /// The process.
    pub process_id: u32,
    /// Host and start. Null in a folder of an earlier release.
    pub origin: Option<SessionOrigin>,
}

/// Host and time at which a session began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionOrigin {
    /// The host's name, as [`host_word`] writes it.
    pub host: String,
    /// Nanoseconds since the Unix epoch.
    pub start_ns: u64,
}

/// A host's name with every byte that is not a letter, a digit, a dot or a dash replaced, and cut to a bounded length.
pub fn host_word(host: &str) -> String {
    let is_plain = |symbol: char| symbol.is_ascii_alphanumeric() || symbol == '.' || symbol == '-';
    let word: String = host.chars().map(|symbol| if is_plain(symbol) { symbol } else { '_' }).collect();
    let word = word.get(..MAX_HOST_BYTES).unwrap_or(&word);
    if word.is_empty() { "unknown".to_owned() } else { word.to_owned() }
}

impl fmt::Display for RunName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (instrument, process_id) = (self.instrument.word(), self.process_id);
        match &self.origin {
            Some(SessionOrigin { host, start_ns }) => {
                write!(formatter, "run-{instrument}-{}-{process_id}-{start_ns}", host_word(host))
            }
            None => write!(formatter, "run-{instrument}-{process_id}"),
        }
    }
}

/// A name that is not that of a process's folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotARun;

impl FromStr for RunName {
    type Err = NotARun;

    fn from_str(name: &str) -> Result<Self, NotARun> {
        Self::parse(name).ok_or(NotARun)
    }
}

impl RunName {
    fn parse(name: &str) -> Option<Self> {
        // No instrument's text has a dash. A host's name may.
        let (word, rest) = name.strip_prefix("run-")?.split_once('-')?;
        let instrument = PassInstrument::ALL.into_iter().find(|known| known.word() == word)?;
        if let Ok(process_id) = rest.parse() {
            return Some(Self { instrument, process_id, origin: None });
        }
        let (rest, start) = rest.rsplit_once('-')?;
        let (host, process) = rest.rsplit_once('-')?;
        let (process_id, start_ns) = (process.parse().ok()?, start.parse().ok()?);
        Some(Self { instrument, process_id, origin: Some(SessionOrigin { host: host.to_owned(), start_ns }) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(host: &str) -> RunName {
        let origin = Some(SessionOrigin { host: host.to_owned(), start_ns: 1_763_805_600_123_456_789 });
        RunName { instrument: PassInstrument::PcSamples, process_id: 4711, origin }
    }

    #[test]
    fn a_name_is_read_as_it_was_written() {
        for host in ["node7", "gpu-node-1-2", "a.b.example.org", "12-13"] {
            assert_eq!(name(host).to_string().parse(), Ok(name(host)));
        }
        assert_eq!(name("node-7").to_string(), "run-pc_samples-node-7-4711-1763805600123456789");
    }

    #[test]
    fn a_folder_of_an_earlier_release_is_read() {
        let old = RunName { instrument: PassInstrument::Accesses, process_id: 10, origin: None };
        assert_eq!("run-accesses-10".parse(), Ok(old.clone()));
        assert_eq!(old.to_string(), "run-accesses-10");
    }

    #[test]
    fn hosts_are_bounded_and_plain() {
        assert_eq!(host_word("../a b/ü"), ".._a_b__");
        assert_eq!(host_word(""), "unknown");
        assert_eq!(host_word(&"x".repeat(300)).len(), MAX_HOST_BYTES);
        assert!(name(&"ü".repeat(300)).to_string().len() < 128);
    }

    #[test]
    fn other_names_are_not_runs() {
        for other in
            ["cubins", "run-", "run-accesses", "run-other-7", "run-accesses-x", "run-accesses-7-x", "python"]
        {
            assert_eq!(other.parse::<RunName>(), Err(NotARun), "{other}");
        }
    }
}
