//! Ops of copies and fills in runs without Python hooks: those of the equal ones in the run that has hooks.
//!
//! Copies and fills of one kind and size are in the same order in both runs, if there are as many. If a run has more of
//! them, none is known.

use std::collections::BTreeMap;

use stallmap_schema::id::{OpId, RunId};
use stallmap_schema::tables::activity::GpuActivity;
use stallmap_schema::word::{ActivityKind, CopyKind};

use crate::runs::RunState;

/// Kind, direction and bytes of a copy or fill.
type CopyClass = (ActivityKind, Option<CopyKind>, u64);

/// The ops of copies and fills of reference runs, in the order of their calls.
#[derive(Debug, Default)]
pub(crate) struct ReferenceCopies(BTreeMap<RunId, BTreeMap<CopyClass, Vec<Option<OpId>>>>);

impl ReferenceCopies {
    /// Keeps the ops of a reference run.
    pub(crate) fn add(&mut self, run: &RunState) {
        if !run.is_reference() {
            return;
        }
        let copies =
            run.rows.copies.iter().map(|copy| {
                (copy.begin_ns, (ActivityKind::Copy, Some(copy.kind), copy.size_bytes), copy.op_id)
            });
        let fills = run.rows.fills.iter();
        let fills =
            fills.map(|fill| (fill.begin_ns, (ActivityKind::Fill, None, fill.size_bytes), fill.op_id));
        let mut calls: Vec<_> = copies.chain(fills).collect();
        calls.sort_by_key(|(begin_ns, ..)| *begin_ns);
        let classes = self.0.entry(run.run_id()).or_default();
        for (_, class, op_id) in calls {
            classes.entry(class).or_default().push(op_id);
        }
    }

    /// Gives the copies and fills of a run the ops of the reference run's.
    pub(crate) fn assign(&self, run: &mut RunState) {
        let Some(reference) = self.0.get(&run.row.reference_run_id).filter(|_| !run.is_reference()) else {
            return;
        };
        let mut classes: BTreeMap<CopyClass, Vec<&mut GpuActivity>> = BTreeMap::new();
        for activity in &mut run.rows.activities {
            if let (ActivityKind::Copy | ActivityKind::Fill, Some(size_bytes)) =
                (activity.kind, activity.size_bytes)
            {
                let class = (activity.kind, activity.copy_kind, size_bytes);
                classes.entry(class).or_default().push(activity);
            }
        }
        for (class, mut activities) in classes {
            let ops = reference.get(&class).filter(|ops| ops.len() == activities.len());
            // CUPTI numbers calls in their order, and streams may run them in another.
            activities.sort_by_key(|activity| (activity.correlation_id, activity.begin_ns));
            for (activity, op_id) in activities.into_iter().zip(ops.into_iter().flatten()) {
                activity.op_id = *op_id;
            }
        }
    }
}
