//! The launches of the capture, which outlive their rows.

use std::collections::{BTreeMap, BTreeSet};

use stallmap_schema::id::{FunctionId, KernelId};

use crate::runs::RunState;

/// The launches of all runs so far.
#[derive(Debug, Default)]
pub(super) struct AssembledLaunches {
    functions: BTreeMap<KernelId, FunctionId>,
    /// Launches that a run saw.
    seen: BTreeSet<KernelId>,
    /// Launches that a run recorded.
    recorded: BTreeSet<KernelId>,
}

impl AssembledLaunches {
    /// Adds those of a run.
    pub(super) fn add(&mut self, run: &RunState) {
        let launches = run.rows.launches.iter();
        self.functions.extend(launches.map(|launch| (launch.kernel_id, launch.function_id)));
        for row in &run.rows.launch_runs {
            self.seen.insert(row.kernel_id);
            if row.recorded {
                self.recorded.insert(row.kernel_id);
            }
        }
    }

    /// The kernel of every launch.
    pub(super) fn functions(&self) -> &BTreeMap<KernelId, FunctionId> {
        &self.functions
    }

    /// The functions of launches that were recorded, and those of launches that were not.
    pub(super) fn by_recording(&self) -> (BTreeSet<FunctionId>, BTreeSet<FunctionId>) {
        let (mut recorded, mut other) = (BTreeSet::new(), BTreeSet::new());
        for (kernel_id, function_id) in &self.functions {
            let functions = if self.recorded.contains(kernel_id) { &mut recorded } else { &mut other };
            functions.insert(*function_id);
        }
        (recorded, other)
    }

    pub(super) fn holds(&self, kernel_id: KernelId) -> bool {
        self.seen.contains(&kernel_id)
    }
}
