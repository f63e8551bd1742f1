//! The samples of one graph launch, given to the nodes of the graph.
//!
//! CUPTI names the call and not the node. Records of one kernel stand together, kernel by kernel in the order in which
//! they ran, and an instruction is there once a kernel: so the records fall into runs of one kernel each. Where there are
//! as many runs of a function as nodes, each node has its own. Else they share.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use stallmap_schema::id::Pc;

use super::buffer::PcRecord;

/// A kernel node that was launched.
#[derive(Clone, Copy, Debug)]
pub(super) struct LaunchedNode<'a> {
    /// The kernel's mangled name.
    pub(super) name: &'a str,
    /// Its part of samples that cannot be separated.
    pub(super) weight: u64,
}

/// The samples of one node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct NodeShare {
    pub(super) records: Vec<PcRecord>,
    /// True if they are a part of samples that several nodes took.
    pub(super) is_split: bool,
}

/// The samples of a graph launch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct NodeShares {
    /// One for each node.
    pub(super) nodes: Vec<NodeShare>,
    /// Records of kernels that belong to no node.
    pub(super) others: Vec<PcRecord>,
}

/// Gives records to nodes. No sample is lost, and none counted twice.
pub(super) fn assign(records: Vec<PcRecord>, targets: &[LaunchedNode<'_>]) -> NodeShares {
    let mut nodes_of: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (index, target) in targets.iter().enumerate() {
        nodes_of.entry(target.name).or_default().push(index);
    }
    let mut shares = NodeShares { nodes: vec![NodeShare::default(); targets.len()], others: Vec::new() };
    let mut runs_of: BTreeMap<Arc<str>, Vec<Vec<PcRecord>>> = BTreeMap::new();
    for run in runs(records, |name| nodes_of.contains_key(name)) {
        match run.kernel {
            Some(kernel) => runs_of.entry(kernel).or_default().push(run.records),
            None => shares.others.extend(run.records),
        }
    }
    for (kernel, runs) in runs_of {
        let nodes = nodes_of.get(&*kernel).map_or(&[][..], Vec::as_slice);
        give(runs, nodes, targets, &mut shares);
    }
    shares
}

/// Gives the runs of one function to its nodes.
fn give(runs: Vec<Vec<PcRecord>>, nodes: &[usize], targets: &[LaunchedNode<'_>], shares: &mut NodeShares) {
    let mut to = |node: usize, records: Vec<PcRecord>, is_split: bool| match shares.nodes.get_mut(node) {
        Some(share) => {
            share.records.extend(records);
            share.is_split |= is_split;
        }
        None => shares.others.extend(records),
    };
    if let [node] = nodes {
        return to(*node, summed(runs.into_iter().flatten()), false);
    }
    if runs.len() == nodes.len() {
        return runs.into_iter().zip(nodes).for_each(|(run, node)| to(*node, run, false));
    }
    let weights: Vec<u64> =
        nodes.iter().filter_map(|node| targets.get(*node)).map(|target| target.weight).collect();
    let mut parts = SplitCounts::new(&weights);
    let mut split: Vec<Vec<PcRecord>> = vec![Vec::new(); nodes.len()];
    for record in summed(runs.into_iter().flatten()) {
        for (part, records) in parts.split_record(&record).into_iter().zip(&mut split) {
            records.extend(part);
        }
    }
    split.into_iter().zip(nodes).for_each(|(records, node)| to(*node, records, true));
}

/// Records of one kernel.
#[derive(Default)]
struct KernelRecords {
    /// A node's kernel; `None` where only functions that no node launches were found.
    kernel: Option<Arc<str>>,
    cubin_crc: u64,
    seen: BTreeSet<(Arc<str>, Pc)>,
    records: Vec<PcRecord>,
}

impl KernelRecords {
    /// True if a record can be of the same kernel. A function that is not a kernel itself is called by one of its
    /// cubin.
    fn takes(&self, record: &PcRecord, is_kernel: bool) -> bool {
        let same_kernel = !is_kernel || self.kernel.as_ref().is_none_or(|kernel| *kernel == record.function);
        let place = (Arc::clone(&record.function), record.pc);
        self.cubin_crc == record.cubin_crc && same_kernel && !self.seen.contains(&place)
    }

    fn push(&mut self, record: PcRecord, is_kernel: bool) {
        if is_kernel {
            self.kernel = Some(Arc::clone(&record.function));
        }
        self.cubin_crc = record.cubin_crc;
        self.seen.insert((Arc::clone(&record.function), record.pc));
        self.records.push(record);
    }
}

/// Splits records into runs of one kernel each.
fn runs(records: Vec<PcRecord>, is_kernel: impl Fn(&str) -> bool) -> Vec<KernelRecords> {
    let mut runs: Vec<KernelRecords> = Vec::new();
    for record in records {
        let is_kernel = is_kernel(&record.function);
        if !runs.last().is_some_and(|run| run.takes(&record, is_kernel)) {
            runs.push(KernelRecords::default());
        }
        if let Some(run) = runs.last_mut() {
            run.push(record, is_kernel);
        }
    }
    runs
}

/// Records of one instruction added up.
fn summed(records: impl Iterator<Item = PcRecord>) -> Vec<PcRecord> {
    let mut sums: BTreeMap<(u64, Arc<str>, Pc), PcRecord> = BTreeMap::new();
    for record in records {
        let key = (record.cubin_crc, Arc::clone(&record.function), record.pc);
        match sums.entry(key) {
            Entry::Vacant(entry) => {
                entry.insert(record);
            }
            Entry::Occupied(mut entry) => add(&mut entry.get_mut().reasons, &record.reasons),
        }
    }
    sums.into_values().collect()
}

/// Adds the samples of one record to those of another.
fn add(reasons: &mut Vec<(u32, u64)>, more: &[(u32, u64)]) {
    for &(reason, samples) in more {
        match reasons.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, sum)) => *sum += samples,
            None => reasons.push((reason, samples)),
        }
    }
}

/// Counts split by weights, in integers that add up.
#[derive(Debug)]
pub(super) struct SplitCounts {
    /// The weights up to and with each, never 0 in all.
    ends: Vec<u128>,
    /// Position of the next single one.
    cursor: u128,
}

impl SplitCounts {
    /// Parts by weight. Equal ones where all weights are 0.
    pub(super) fn new(weights: &[u64]) -> Self {
        let is_zero = weights.iter().all(|weight| *weight == 0);
        let ends = weights.iter().scan(0, |end, weight| {
            *end += if is_zero { 1 } else { u128::from(*weight) };
            Some(*end)
        });
        Self { ends: ends.collect(), cursor: 0 }
    }

    /// A count's parts, which add up to it where there is any weight.
    pub(super) fn split(&mut self, count: u64) -> Vec<u64> {
        let Some(&total) = self.ends.last() else { return Vec::new() };
        let mut parts = Vec::with_capacity(self.ends.len());
        let (mut left, mut before) = (count, 0);
        for end in &self.ends {
            let part = u64::try_from(u128::from(count) * (end - before) / total).unwrap_or(u64::MAX);
            left = left.saturating_sub(part);
            before = *end;
            parts.push(part);
        }
        for _ in 0..left {
            // Steps of the golden ratio spread over the weights evenly, however few they are.
            self.cursor = (self.cursor + (total * 618 / 1000).max(1)) % total;
            let node = self.ends.partition_point(|end| *end <= self.cursor);
            if let Some(part) = parts.get_mut(node) {
                *part += 1;
            }
        }
        parts
    }

    /// A record's parts; `None` for those without a sample.
    fn split_record(&mut self, record: &PcRecord) -> Vec<Option<PcRecord>> {
        let mut parts: Vec<Vec<(u32, u64)>> = vec![Vec::new(); self.ends.len()];
        for &(reason, samples) in &record.reasons {
            for (part, samples) in parts.iter_mut().zip(self.split(samples)) {
                if samples > 0 {
                    part.push((reason, samples));
                }
            }
        }
        let part =
            |reasons: Vec<(u32, u64)>| (!reasons.is_empty()).then(|| PcRecord { reasons, ..record.clone() });
        parts.into_iter().map(part).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn record(function: &str, pc: u32, samples: u64) -> PcRecord {
        let reasons = vec![(1, samples)];
        PcRecord { correlation_id: 9, cubin_crc: 7, function: function.into(), pc: Pc(pc), reasons }
    }

    fn targets<'a>(names: &[(&'a str, u64)]) -> Vec<LaunchedNode<'a>> {
        names.iter().map(|&(name, weight)| LaunchedNode { name, weight }).collect()
    }

    fn samples<'a>(records: impl IntoIterator<Item = &'a PcRecord>) -> u64 {
        records.into_iter().flat_map(|record| &record.reasons).map(|(_, samples)| samples).sum()
    }

    fn given(shares: &NodeShares) -> Vec<(u64, bool)> {
        shares.nodes.iter().map(|share| (samples(&share.records), share.is_split)).collect()
    }

    #[test]
    fn a_function_that_occurs_twice_has_two_runs() {
        let records = ["spin", "spin", "add", "spin", "spin"];
        let pcs = [0, 16, 0, 0, 16];
        let records = (0..).zip(records).map(|(index, name)| record(name, pcs[index], 1 << index)).collect();
        let shares = assign(records, &targets(&[("spin", 8), ("add", 1), ("spin", 16)]));
        assert_eq!(given(&shares), [(3, false), (4, false), (24, false)]);
        assert!(shares.others.is_empty());
    }

    #[test]
    fn the_same_kernel_twice_in_a_row_is_told_by_a_repeated_pc() {
        let records = vec![record("k", 0, 1), record("k", 16, 2), record("k", 0, 4), record("k", 16, 8)];
        let shares = assign(records, &targets(&[("k", 1), ("k", 1)]));
        assert_eq!(given(&shares), [(3, false), (12, false)]);
    }

    #[test]
    fn one_node_has_all_runs_of_its_function() {
        let records = vec![record("k", 0, 1), record("k", 0, 4)];
        let shares = assign(records, &targets(&[("k", 1), ("other", 1)]));
        assert_eq!(given(&shares), [(5, false), (0, false)]);
        assert_eq!(shares.nodes[0].records, [record("k", 0, 5)]);
    }

    #[test]
    fn runs_that_are_missing_are_shared_by_weight() {
        let records = vec![record("k", 0, 60), record("k", 0, 30)];
        let shares = assign(records, &targets(&[("k", 1), ("k", 2), ("k", 6)]));
        assert_eq!(given(&shares), [(10, true), (20, true), (60, true)]);
    }

    #[test]
    fn few_samples_are_shared_by_weight_too() {
        let records = (0..900).map(|pc| record("k", pc, 1)).collect();
        let shares = assign(records, &targets(&[("k", 1), ("k", 2), ("k", 6)]));
        let counts: Vec<u64> = given(&shares).into_iter().map(|(samples, _)| samples).collect();
        for (part, expected) in counts.into_iter().zip([100_u64, 200, 600]) {
            assert!(part.abs_diff(expected) <= 20, "{part} of {expected}");
        }
    }

    #[test]
    fn a_called_function_goes_with_its_kernel() {
        let records = vec![record("a", 0, 1), record("called", 0, 2), record("b", 0, 4), record("b", 16, 8)];
        let shares = assign(records, &targets(&[("a", 1), ("b", 1)]));
        assert_eq!(given(&shares), [(3, false), (12, false)]);
    }

    #[test]
    fn kernels_of_no_node_are_nobodys() {
        let shares = assign(vec![record("memset", 0, 3)], &targets(&[("k", 1)]));
        assert_eq!((given(&shares), samples(&shares.others)), (vec![(0, false)], 3));
    }

    proptest! {
        #[test]
        fn every_sample_goes_somewhere_once(
            found in prop::collection::vec((0..4_u8, 0..4_u32, 0..1000_u64), 0..60),
            nodes in prop::collection::vec((0..3_u8, 0..100_u64), 0..8),
        ) {
            let names = ["a", "b", "c", "called"];
            let records: Vec<PcRecord> =
                found.iter().map(|&(name, pc, samples)| record(names[usize::from(name)], pc, samples)).collect();
            let nodes: Vec<_> = nodes.iter().map(|&(name, weight)| (names[usize::from(name)], weight)).collect();
            let all = samples(&records);
            let shares = assign(records, &targets(&nodes));
            let taken: u64 = given(&shares).iter().map(|(samples, _)| samples).sum();
            prop_assert_eq!(taken + samples(&shares.others), all);
            prop_assert_eq!(shares.nodes.len(), nodes.len());
            for (share, (name, _)) in shares.nodes.iter().zip(&nodes) {
                let is_nodes = |function: &str| nodes.iter().any(|(other, _)| *other == function);
                let fits = |record: &PcRecord| *record.function == **name || !is_nodes(&record.function);
                let all_fit = share.records.iter().all(fits);
                prop_assert!(all_fit);
            }
        }

        #[test]
        fn parts_add_up(weights in prop::collection::vec(any::<u64>(), 1..20), counts in prop::collection::vec(0..u64::MAX, 1..5)) {
            let mut parts = SplitCounts::new(&weights);
            for count in counts {
                prop_assert_eq!(parts.split(count).iter().sum::<u64>(), count);
            }
        }
    }
}
