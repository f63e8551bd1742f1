//! Why a launch matches none of the reference run.

use std::collections::BTreeSet;

use stallmap_schema::id::FunctionId;

use super::LaunchLikeness;

/// The reference run's launches, by everything that a reason can name.
pub(super) struct MismatchReasons {
    /// The likenesses of both runs by their numbers.
    all: Vec<LaunchLikeness>,
    functions: BTreeSet<FunctionId>,
    shapes: BTreeSet<(FunctionId, [u32; 6])>,
    nodes: BTreeSet<LaunchLikeness>,
    devices: BTreeSet<LaunchLikeness>,
    shared: BTreeSet<LaunchLikeness>,
    likenesses: BTreeSet<u32>,
}

impl MismatchReasons {
    /// `reference` are the numbers of its likenesses.
    pub(super) fn new(all: Vec<LaunchLikeness>, reference: &[u32]) -> Self {
        let likenesses: BTreeSet<u32> = reference.iter().copied().collect();
        let known = || likenesses.iter().filter_map(|number| all.get(*number as usize));
        Self {
            functions: known().map(|likeness| likeness.function_id).collect(),
            shapes: known().map(|likeness| (likeness.function_id, likeness.shape)).collect(),
            nodes: known().map(LaunchLikeness::up_to_node).collect(),
            devices: known().map(LaunchLikeness::up_to_device).collect(),
            shared: known().map(LaunchLikeness::up_to_shared).collect(),
            likenesses,
            all,
        }
    }

    /// The reason of a launch of this likeness.
    pub(super) fn for_number(&self, number: u32) -> &'static str {
        let Some(likeness) = self.all.get(number as usize) else {
            return "function not launched in reference run";
        };
        if !self.functions.contains(&likeness.function_id) {
            "function not launched in reference run"
        } else if !self.shapes.contains(&(likeness.function_id, likeness.shape)) {
            "other grid or block"
        } else if !self.nodes.contains(&likeness.up_to_node()) {
            "other graph or node"
        } else if !self.devices.contains(&likeness.up_to_device()) {
            "other device"
        } else if !self.shared.contains(&likeness.up_to_shared()) {
            "other dynamic shared memory"
        } else if !self.likenesses.contains(&number) {
            "other python state or op"
        } else {
            "more occurrences than the reference run"
        }
    }
}
