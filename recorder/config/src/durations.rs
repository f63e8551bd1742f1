//! The longest launch of each kernel and shape, as a run has measured it: the file [`FILE_NAME`] in the recording's folder.
//!
//! A run that samples stalls chooses the period of a launch by it, also of the first of its kind.

use std::collections::BTreeMap;

use crate::KernelShape;

/// The name of the file.
pub const FILE_NAME: &str = "durations.json";

/// Nanoseconds by kernel and shape.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelDurations(BTreeMap<KernelShape, u64>);

impl KernelDurations {
    /// Adds a launch.
    pub fn add(&mut self, kernel: KernelShape, ns: u64) {
        let longest = self.0.entry(kernel).or_default();
        *longest = ns.max(*longest);
    }

    /// The longest launch of a kernel of this mangled name and shape. `None` if it was not measured.
    pub fn longest_ns(&self, name: &str, shape: [u32; 6]) -> Option<u64> {
        self.0.get(&KernelShape { name: name.to_owned(), shape }).copied()
    }

    /// The content of the file.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string(&self.0.iter().collect::<Vec<_>>())
    }

    /// Reads the content of the file.
    pub fn from_json(json: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str::<Vec<(KernelShape, u64)>>(json).map(|rows| Self(rows.into_iter().collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_launch_of_a_shape_survives_the_file() {
        let mut durations = KernelDurations::default();
        let kernel = |blocks| KernelShape { name: "_Z4spinv".into(), shape: [blocks, 1, 1, 32, 1, 1] };
        for (blocks, ns) in [(1, 5), (1, 9), (1, 7), (2, 3)] {
            durations.add(kernel(blocks), ns);
        }
        let read = KernelDurations::from_json(&durations.to_json().unwrap()).unwrap();
        assert_eq!(read, durations);
        let longest = |blocks: u32| read.longest_ns("_Z4spinv", kernel(blocks).shape);
        assert_eq!([1, 2, 3].map(longest), [Some(9), Some(3), None]);
        assert_eq!(read.longest_ns("other", kernel(1).shape), None);
    }
}
