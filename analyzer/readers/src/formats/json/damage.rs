//! Content of a file that is not JSON, and was left out or repaired.

use std::collections::BTreeMap;

/// Damages by their kind, with their number and the first position.
#[derive(Clone, Debug, Default)]
pub struct JsonDamage(BTreeMap<&'static str, (u64, String)>);

impl JsonDamage {
    /// Counts a damage.
    pub(super) fn add(&mut self, kind: &'static str, position: u64) {
        self.add_many(kind, 1, format!("byte {position}"));
    }

    /// Counts several things that are lost, with the first of them.
    pub(super) fn add_many(&mut self, kind: &'static str, count: u64, first: String) {
        if count > 0 {
            self.0.entry(kind).or_insert((0, first)).0 += count;
        }
    }

    /// Kind, number and first position of each.
    pub fn rows(&self) -> impl Iterator<Item = (&'static str, u64, &str)> {
        self.0.iter().map(|(kind, (count, first))| (*kind, *count, first.as_str()))
    }
}
