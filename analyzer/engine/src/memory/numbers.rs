//! Maps from numbers, with a fast hash.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

use super::sampler::mix;

/// A map whose keys are numbers.
pub type NumberMap<K, V> = HashMap<K, V, BuildHasherDefault<NumberHasher>>;

/// A set of numbers, or of a few numbers together.
pub type NumberSet<K> = HashSet<K, BuildHasherDefault<NumberHasher>>;

/// A hash of a few numbers.
#[derive(Debug, Default)]
pub struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn write_u8(&mut self, number: u8) {
        self.write_u64(number.into());
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(number.into());
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = mix(self.0.rotate_left(32) ^ number);
    }

    /// The variant of an enum.
    fn write_isize(&mut self, number: isize) {
        self.write_u64(number.cast_unsigned() as u64);
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64((*byte).into());
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// A position as a small number. The limits on what is counted make it fit.
pub fn position(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
