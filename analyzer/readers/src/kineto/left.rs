//! Content of a trace that no table holds, with its number.

use std::collections::BTreeMap;

use stallmap_schema::word::LossKind;

use super::event::TraceEvent;
use crate::model::TraceLosses;

/// Categories that are counted by name. A file can have any number of them.
const MAX_CATEGORIES: usize = 100;

/// Numbers of what is left out.
#[derive(Debug, Default)]
pub(super) struct OmittedEvents {
    pub(super) without_time: u64,
    of_wrong_length: u64,
    pub(super) long_inputs: u64,
    /// Calls that no kernel, copy or fill can name.
    pub(super) uncorrelated: u64,
    occupancy: u64,
    operations: u64,
    modules: u64,
    pub(super) host_memory: u64,
    pub(super) calls: u64,
    pub(super) others: u64,
    categories: BTreeMap<String, u64>,
}

impl OmittedEvents {
    /// Counts the arguments of an event that are left out.
    pub(super) fn arguments(&mut self, event: &TraceEvent) {
        self.of_wrong_length += u64::from(event.is_of_wrong_length);
        let left = event.arguments.left;
        self.occupancy += u64::from(left.occupancy);
        self.operations += u64::from(left.operations);
        self.modules += u64::from(left.modules);
    }

    /// Counts an event of a category that is not read.
    pub(super) fn category(&mut self, category: String) {
        let category = if category.is_empty() { "(none)".to_owned() } else { category };
        if self.categories.len() < MAX_CATEGORIES || self.categories.contains_key(&category) {
            *self.categories.entry(category).or_default() += 1;
        } else {
            self.others += 1;
        }
    }

    /// Names everything that was left out.
    pub(super) fn name(&self, losses: &mut TraceLosses) {
        let mut lose = |reason: &str, count| losses.add_many(LossKind::Source, reason, count, None);
        lose("events without a time", self.without_time);
        lose("events with a negative length, or one beyond all bounds", self.of_wrong_length);
        lose("values of the inputs of ops with more than 256 bytes", self.long_inputs);
        lose("calls of CUDA without a correlation", self.uncorrelated);
        lose("estimates of occupancy", self.occupancy);
        lose("estimates of the operations of ops", self.operations);
        lose("modules around ops as their arguments", self.modules);
        lose("allocations and frees of memory of the host", self.host_memory);
        lose("calls of the runtime and the driver that launch nothing", self.calls);
        lose("events that are not objects, or of further categories", self.others);
        for (category, count) in &self.categories {
            lose(&format!("events of category `{category}`"), *count);
        }
    }

    /// Categories that are not read.
    pub(super) fn categories(&self) -> impl Iterator<Item = &str> {
        self.categories.keys().map(String::as_str)
    }
}
