//! The option `--memory`: a size, or a share of the machine's memory.

use std::fs;
use std::str::FromStr;

use sysinfo::{MemoryRefreshKind, RefreshKind, System};

/// A limit of memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MemoryBound {
    /// Bytes.
    Bytes(usize),
    /// Percent of the memory of the machine, or of its container.
    Percent(u8),
}

impl MemoryBound {
    /// The limit in bytes. None if the machine's memory is unknown.
    pub fn bytes(self) -> Option<usize> {
        match self {
            Self::Bytes(bytes) => Some(bytes),
            Self::Percent(percent) => {
                let share = machine_bytes()? / 100 * u64::from(percent);
                usize::try_from(share).ok()
            }
        }
    }
}

/// Memory of the machine, or of the container that this process runs in. Less if this process may address less.
fn machine_bytes() -> Option<u64> {
    let memory = MemoryRefreshKind::nothing().with_ram();
    let system = System::new_with_specifics(RefreshKind::nothing().with_memory(memory)).ok()?;
    let limits = system.cgroup_limits().map(|limits| limits.total_memory);
    let bytes = Some(limits.unwrap_or_else(|| system.total_memory())).filter(|bytes| *bytes > 0)?;
    let addressable =
        fs::read_to_string("/proc/self/limits").ok().and_then(|limits| addressable_bytes(&limits));
    Some(addressable.map_or(bytes, |addressable| bytes.min(addressable)))
}

/// The limit of addresses (`ulimit -v`) among the limits of a process. None for no limit.
fn addressable_bytes(limits: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max address space"))?;
    line.split_whitespace().next()?.parse().ok()
}

impl FromStr for MemoryBound {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(percent) = text.strip_suffix('%') {
            let percent = percent.parse().ok().filter(|percent| (1..=100).contains(percent));
            return percent.map(Self::Percent).ok_or_else(|| "use 1% to 100%".to_owned());
        }
        let digits = text.trim_end_matches(|symbol: char| !symbol.is_ascii_digit());
        let shift = match text[digits.len()..].to_ascii_uppercase().trim_end_matches("IB") {
            "" | "B" => 0,
            "K" => 10,
            "M" => 20,
            "G" => 30,
            "T" => 40,
            other => return Err(format!("`{other}` is not a unit: use K, M, G, T or %")),
        };
        let number: usize = digits.parse().map_err(|_| "a size is a number and K, M, G or T".to_owned())?;
        let bytes = number.checked_mul(1 << shift).ok_or("that is more than a machine can hold")?;
        if bytes < 1 << 20 { Err("use 1M or more".to_owned()) } else { Ok(Self::Bytes(bytes)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        let parse = |text: &str| text.parse::<MemoryBound>();
        assert_eq!(parse("8G"), Ok(MemoryBound::Bytes(8 << 30)));
        assert_eq!(parse("1500MiB"), Ok(MemoryBound::Bytes(1500 << 20)));
        assert_eq!(parse("50%"), Ok(MemoryBound::Percent(50)));
        for wrong in ["", "G", "0%", "101%", "1K", "5X", "-1G", "99999999999999999999", "99999999T"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_limit_of_addresses_is_one_of_memory() {
        let limits = |soft: &str| {
            format!(
                "Limit                     Soft Limit           Hard Limit           Units     \n\
                     Max cpu time              unlimited            unlimited            seconds   \n\
                     Max address space         {soft:20} unlimited            bytes     \n"
            )
        };
        assert_eq!(addressable_bytes(&limits("6442450944")), Some(6 << 30));
        assert_eq!(addressable_bytes(&limits("unlimited")), None);
        assert_eq!(addressable_bytes(""), None);
    }

    #[test]
    fn a_share_is_of_this_machine() {
        let [half, whole] = [50, 100].map(|percent| MemoryBound::Percent(percent).bytes().unwrap());
        assert!(half > 1 << 20 && whole / 2 - half < 100);
    }
}
