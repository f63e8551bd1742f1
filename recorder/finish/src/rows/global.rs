//! Identifiers that are unique in the capture: each run continues the count of the run before.
//!
//! A reference run comes before the runs that refer to it, so the launches of the first one are 0, 1, 2, ...

use std::collections::BTreeMap;

use stallmap_schema::capture::numbering::IdSpace;
use stallmap_schema::id::{AllocationId, KernelId, OpId, RunId, StorageId, TensorId};

use super::RunRows;

/// Greatest identifier of a run: a damaged recording may name any.
const MAX_LOCAL: u64 = (1 << 40) - 1;

/// Offsets from a run's own identifiers to those of the capture.
#[derive(Clone, Debug, Default)]
pub(crate) struct IdBases {
    first: BTreeMap<IdSpace, u64>,
    /// Modules of XLA so far, which the finalizing itself numbers.
    pub(crate) hlo_modules: u64,
}

impl IdBases {
    /// An identifier of the run as the capture has it.
    pub(crate) fn global(&self, space: IdSpace, local: u64) -> u64 {
        self.for_space(space) + local.min(MAX_LOCAL)
    }

    /// The run's own form of an identifier.
    pub(crate) fn local(&self, space: IdSpace, global: u64) -> u64 {
        global.saturating_sub(self.for_space(space))
    }

    /// A launch's ordinal in the run.
    pub(crate) fn ordinal(&self, kernel_id: KernelId) -> u64 {
        self.local(IdSpace::Launch, kernel_id.0)
    }

    /// The bases of the run that follows, by the last identifiers of this one.
    pub(crate) fn after(&self, last: &BTreeMap<IdSpace, u64>) -> Self {
        let next = |space| {
            let taken = last.get(&space).map_or(0, |&last| space.taken(last.min(MAX_LOCAL)));
            (space, self.for_space(space) + taken)
        };
        Self { first: IdSpace::ALL.into_iter().map(next).collect(), hlo_modules: self.hlo_modules }
    }

    fn for_space(&self, space: IdSpace) -> u64 {
        self.first.get(&space).copied().unwrap_or(0)
    }
}

/// Identifiers that are local to a run.
pub(super) trait LocalIds {
    fn visit(&mut self, visit: &mut dyn FnMut(IdSpace, &mut u64));
}

macro_rules! local {
    ($($id:ident $space:ident)+) => {$(
        impl LocalIds for $id {
            fn visit(&mut self, visit: &mut dyn FnMut(IdSpace, &mut u64)) {
                visit(IdSpace::$space, &mut self.0);
            }
        }
    )+};
}

local! { KernelId Launch OpId Op StorageId Storage TensorId Tensor AllocationId Allocation }

impl<T: LocalIds> LocalIds for Option<T> {
    fn visit(&mut self, visit: &mut dyn FnMut(IdSpace, &mut u64)) {
        if let Some(id) = self {
            id.visit(visit);
        }
    }
}

macro_rules! visit {
    ($self:ident, $visit:ident, $($rows:ident: [$($column:ident),*];)+) => {$(
        for row in &mut $self.$rows {
            $(row.$column.visit($visit);)*
        }
    )+};
}

macro_rules! name {
    ($self:ident, $run_id:ident, $($rows:ident)+) => {$(
        for row in &mut $self.$rows {
            row.run_id = $run_id;
        }
    )+};
}

impl RunRows {
    /// The last identifiers that the run uses, those too of rows that were lost.
    pub(crate) fn last_ids(&mut self) -> BTreeMap<IdSpace, u64> {
        let mut last: BTreeMap<IdSpace, u64> = BTreeMap::new();
        let contents = self.pages.contents();
        let ends = contents.into_iter().map(|(_, first, count)| first.saturating_add(count.max(1)) - 1);
        last.extend(ends.max().map(|end| (IdSpace::Content, end)));
        self.visit_ids(&mut |space, id| {
            let known = last.entry(space).or_insert(*id);
            *known = (*id).max(*known);
        });
        last
    }

    /// Gives every row the run's id, and every identifier its unique form. Hashes are the same everywhere.
    pub(crate) fn globalize(&mut self, run_id: RunId, bases: &IdBases) {
        self.visit_ids(&mut |space, id| *id = bases.global(space, *id));
        name! { self, run_id,
            run options devices launches launch_runs graph_launches activities block_times warp_events states ops storages tensors allocations
            copies fills bundles losses hlo_modules
        }
    }

    fn visit_ids(&mut self, visit: &mut dyn FnMut(IdSpace, &mut u64)) {
        visit! { self, visit,
            launches: [kernel_id, op_id, accesses_of];
            launch_runs: [kernel_id];
            graph_launches: [op_id];
            activities: [kernel_id];
            block_times: [kernel_id];
            warp_events: [kernel_id];
            parameters: [kernel_id];
            ops: [op_id, parent_op_id, forward_op_id];
            op_ends: [op_id];
            storage_events: [storage_id, op_id];
            storages: [storage_id, op_id];
            tensors: [tensor_id, storage_id, base_tensor_id, op_id];
            tensor_names: [tensor_id];
            op_tensors: [op_id, tensor_id];
            op_ranges: [op_id];
            op_metrics: [op_id];
            hlo_launches: [kernel_id];
            access_counts: [kernel_id];
            shape_counts: [kernel_id];
            allocation_events: [allocation_id, op_id];
            allocations: [allocation_id, op_id];
            copies: [op_id];
            fills: [op_id];
            bundles: [kernel_id];
            symbols: [kernel_id];
            losses: [kernel_id];
        }
        for symbol in &mut self.symbols {
            visit(IdSpace::Content, &mut symbol.content_id);
        }
    }

    /// Gives every row of a replay the run's id. Its launches are those of the capture, and have their identifiers.
    pub(crate) fn name_run(&mut self, run_id: RunId) {
        name! { self, run_id,
            run options devices launch_runs replays counters ablations ablation_instructions redirects losses
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_count_on_from_run_to_run() {
        let first = IdBases::default();
        let second = first.after(&BTreeMap::from([(IdSpace::Launch, 2), (IdSpace::Op, 35)]));
        let third = second.after(&BTreeMap::from([(IdSpace::Launch, 0), (IdSpace::Op, u64::MAX)]));
        assert_eq!([&first, &second, &third].map(|bases| bases.global(IdSpace::Launch, 0)), [0, 3, 4]);
        assert_eq!([&first, &second].map(|bases| bases.global(IdSpace::Op, 1)), [1, 36]);
        assert_eq!(third.global(IdSpace::Op, 1), 36 + MAX_LOCAL);
        assert_eq!((second.ordinal(KernelId(4)), third.global(IdSpace::Tensor, 1)), (1, 1));
    }
}
