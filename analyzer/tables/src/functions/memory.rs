//! The memory of the process, for results of functions: nothing else counts them, and many can exist at the same time.

use std::fs;

use datafusion::error::{DataFusionError, Result};

/// Memory of a process next to that of its queries.
const OTHER_BYTES: u64 = 256 << 20;

/// The memory that the queries of a session may take. None for no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct QueryMemory(pub Option<usize>);

impl QueryMemory {
    /// Fails if a result does not fit next to what the process has.
    pub(crate) fn check(self, function: &str, bytes: u64) -> Result<()> {
        let (Some(most), Some(resident)) = (self.0, resident_bytes()) else { return Ok(()) };
        if resident.saturating_add(bytes) <= (most as u64).saturating_add(OTHER_BYTES) {
            return Ok(());
        }
        let reason = format!(
            "`{function}` makes {bytes} bytes, the process has {resident}, and its queries may take {most}"
        );
        Err(DataFusionError::ResourcesExhausted(reason))
    }
}

/// Bytes of the process in memory. None if the system does not say.
fn resident_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok()?.checked_mul(1 << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_that_does_not_fit_is_refused() {
        let memory = QueryMemory(Some(1 << 30));
        memory.check("repeat", 1 << 20).unwrap();
        let error = memory.check("repeat", 2 << 30).unwrap_err();
        assert!(matches!(error, DataFusionError::ResourcesExhausted(_)), "{error}");
        QueryMemory::default().check("repeat", 2 << 40).unwrap();
    }
}
