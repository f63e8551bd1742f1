//! Durations of kernels as a run has measured them: the file [`FILE_NAME`] in the recording's folder.
//!
//! A run that samples stalls chooses its period by them, and knows how long a launch may take.

use std::collections::BTreeMap;

use crate::KernelShape;

/// The name of the file.
pub const FILE_NAME: &str = "durations.json";

/// Nanoseconds of a run's kernels.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelDurations {
    /// All kernels of the process that had most.
    pub run_ns: u64,
    /// The longest launch of each kernel and shape.
    longest: BTreeMap<KernelShape, u64>,
}

impl KernelDurations {
    /// Adds a launch to those of its kernel and shape.
    pub fn add(&mut self, kernel: KernelShape, ns: u64) {
        let longest = self.longest.entry(kernel).or_default();
        *longest = ns.max(*longest);
    }

    /// The longest launch of a kernel of this mangled name and shape; 0 if none was long enough to be added.
    pub fn longest_ns(&self, name: &str, shape: [u32; 6]) -> u64 {
        self.longest.get(&KernelShape { name: name.to_owned(), shape }).copied().unwrap_or(0)
    }

    /// The content of the file.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string(&(self.run_ns, self.longest.iter().collect::<Vec<_>>()))
    }

    /// Reads the content of the file.
    pub fn from_json(json: &str) -> Result<Self, serde_json::Error> {
        let (run_ns, longest): (u64, Vec<(KernelShape, u64)>) = serde_json::from_str(json)?;
        Ok(Self { run_ns, longest: longest.into_iter().collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_launch_of_a_shape_survives_the_file() {
        let mut durations = KernelDurations { run_ns: 24, ..KernelDurations::default() };
        let kernel = |blocks| KernelShape { name: "_Z4spinv".into(), shape: [blocks, 1, 1, 32, 1, 1] };
        for (blocks, ns) in [(1, 5), (1, 9), (1, 7), (2, 3)] {
            durations.add(kernel(blocks), ns);
        }
        let read = KernelDurations::from_json(&durations.to_json().unwrap()).unwrap();
        assert_eq!(read, durations);
        let longest = |blocks: u32| read.longest_ns("_Z4spinv", kernel(blocks).shape);
        assert_eq!([1, 2, 3].map(longest), [9, 3, 0]);
        assert_eq!(read.longest_ns("other", kernel(1).shape), 0);
    }
}
