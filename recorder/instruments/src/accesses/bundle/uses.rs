//! Memory effects of a kernel's code that no patch sees, read from its cubin.

use std::collections::{BTreeMap, BTreeSet};

use stallmap_sass::cubin::{CodeSection, Cubin};
use stallmap_sass::observable::{self, MemoryInstructions};

/// Unseen memory effects of a kernel and the functions that it calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelUses {
    /// Copies by tensor maps.
    pub tensor_maps: bool,
    /// Other accesses that no patch sees. Also where the code cannot be read.
    pub others: bool,
    /// True if it may print.
    pub prints: bool,
    /// An effect that no bundle can hold.
    pub refusal: Option<&'static str>,
}

impl KernelUses {
    /// Code that cannot be read: anything may happen.
    pub const UNKNOWN: Self = Self { tensor_maps: false, others: true, prints: false, refusal: None };

    /// True if every access to device memory is seen.
    pub fn is_observed(self) -> bool {
        !self.tensor_maps && !self.others
    }
}

/// The effects of a kernel of a cubin.
pub fn of_kernel(bytes: &[u8], kernel: &str) -> KernelUses {
    let Some((cubin, section)) = Cubin::read(bytes).ok().and_then(|cubin| {
        let at = cubin.sections.iter().position(|section| holds(section, kernel))?;
        Some((cubin, at))
    }) else {
        return KernelUses::UNKNOWN;
    };
    if !cubin.sm.is_known() {
        return KernelUses::UNKNOWN;
    }
    let (sections, called) = reached(&cubin, section);
    let mut counts = MemoryInstructions::default();
    for section in sections {
        let Some(code) = bytes.get(section.bytes.clone()) else { return KernelUses::UNKNOWN };
        counts = counts.and(observable::count_memory(code, cubin.sm));
    }
    KernelUses {
        tensor_maps: counts.tensor_map > 0,
        others: counts.other_uncovered > 0,
        prints: called.contains("vprintf"),
        refusal: refusal(counts, &called),
    }
}

fn refusal(counts: MemoryInstructions, called: &BTreeSet<&str>) -> Option<&'static str> {
    let launches = |name: &&str| name.starts_with("cnp") || name.starts_with("cudaLaunchDevice");
    if counts.texture > 0 {
        Some("uses textures")
    } else if called.contains("malloc") {
        Some("allocates memory on the device")
    } else if called.iter().any(launches) {
        Some("launches kernels from the device")
    } else {
        None
    }
}

fn holds(section: &CodeSection, function: &str) -> bool {
    section.functions.iter().any(|known| known.name == function)
}

/// The sections of the functions that a kernel may call, its own first, and the names of all that it refers to.
fn reached(cubin: &Cubin, kernel: usize) -> (Vec<&CodeSection>, BTreeSet<&str>) {
    let by_name: BTreeMap<&str, usize> = (0..)
        .zip(&cubin.sections)
        .flat_map(|(at, section)| section.functions.iter().map(move |function| (function.name.as_str(), at)))
        .collect();
    let (mut seen, mut waiting, mut called) = (BTreeSet::new(), vec![kernel], BTreeSet::new());
    while let Some(at) = waiting.pop() {
        let Some(section) = cubin.sections.get(at).filter(|_| seen.insert(at)) else { continue };
        called.extend(section.driver_calls.iter().map(String::as_str));
        for name in section.references.values() {
            called.insert(name.as_str());
            waiting.extend(by_name.get(name.as_str()));
        }
    }
    (seen.into_iter().filter_map(|at| cubin.sections.get(at)).collect(), called)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_that_cannot_be_read_may_do_anything() {
        assert_eq!(of_kernel(b"no cubin", "kernel"), KernelUses::UNKNOWN);
        assert!(!KernelUses::UNKNOWN.is_observed());
    }
}
