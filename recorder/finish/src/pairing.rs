//! Pairing of the processes of two passes: by rank, else by role, but never by process id.

use std::collections::BTreeMap;

/// A process as pairing sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PairedProcess<'a> {
    /// Its rank in a distributed program.
    pub(crate) rank: Option<u32>,
    /// Index of its recording among the merged ones. Only ranks may move between them from pass to pass.
    pub(crate) part: usize,
    /// Program and arguments.
    pub(crate) role: (&'a str, &'a str),
    /// Its start.
    pub(crate) started_ns: i64,
    /// True if it launched anything.
    pub(crate) has_launches: bool,
}

/// Processes that may be paired: of one rank, or without one in the same recording.
type ProcessGroup = (Option<u32>, usize);

impl PairedProcess<'_> {
    fn group(&self) -> ProcessGroup {
        (self.rank, if self.rank.is_some() { 0 } else { self.part })
    }
}

/// For each process the index of its reference. A reference belongs to no more than one process.
///
/// The n-th process of a role in its group, by start, is the n-th with that role among the references. The remaining
/// processes with launches are paired in their group, by start.
pub(crate) fn pair(references: &[PairedProcess<'_>], processes: &[PairedProcess<'_>]) -> Vec<Option<usize>> {
    let mut pairs = ProcessPairs { of: vec![None; processes.len()], taken: vec![false; references.len()] };
    let by_role = |process: &PairedProcess<'_>| {
        Some((process.group(), process.role.0.to_owned(), process.role.1.to_owned()))
    };
    pairs.add(&grouped(references, by_role), &grouped(processes, by_role));
    let of_launching = |process: &PairedProcess<'_>| process.has_launches.then(|| process.group());
    pairs.add(&grouped(references, of_launching), &grouped(processes, of_launching));
    pairs.of
}

struct ProcessPairs {
    /// The reference of each process.
    of: Vec<Option<usize>>,
    /// True for references that have their process.
    taken: Vec<bool>,
}

impl ProcessPairs {
    /// Pairs those of one key that are left, in their order.
    fn add<K: Ord>(&mut self, references: &BTreeMap<K, Vec<usize>>, processes: &BTreeMap<K, Vec<usize>>) {
        for (key, waiting) in processes {
            let waiting = waiting.iter().copied().filter(|&process| self.of.get(process) == Some(&None));
            let free = references.get(key).into_iter().flatten().copied();
            let free = free.filter(|&reference| self.taken.get(reference) == Some(&false));
            let found: Vec<(usize, usize)> = waiting.zip(free).collect();
            for (process, reference) in found {
                if let Some((pair, taken)) = self.of.get_mut(process).zip(self.taken.get_mut(reference)) {
                    (*pair, *taken) = (Some(reference), true);
                }
            }
        }
    }
}

/// Indices by key, in the order of the processes' starts.
fn grouped<K: Ord>(
    processes: &[PairedProcess<'_>],
    key: impl Fn(&PairedProcess<'_>) -> Option<K>,
) -> BTreeMap<K, Vec<usize>> {
    let mut order: Vec<(usize, &PairedProcess<'_>)> = processes.iter().enumerate().collect();
    order.sort_by_key(|(index, process)| (process.started_ns, *index));
    let mut groups: BTreeMap<K, Vec<usize>> = BTreeMap::new();
    for (index, process) in order {
        if let Some(key) = key(process) {
            groups.entry(key).or_default().push(index);
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn process(rank: Option<u32>, role: &str, started_ns: i64) -> PairedProcess<'_> {
        PairedProcess { rank, part: 0, role: (role, "[]"), started_ns, has_launches: true }
    }

    #[test]
    fn ranks_find_themselves_whatever_their_order() {
        // Process ids wrapped: the folders come in another order than the processes started.
        let references =
            [process(Some(3), "python", 4), process(Some(0), "python", 1), process(Some(1), "python", 2)];
        let others =
            [process(Some(0), "python", 13), process(Some(1), "python", 12), process(Some(3), "python", 11)];
        assert_eq!(pair(&references, &others), [Some(1), Some(2), Some(0)]);
    }

    #[test]
    fn processes_of_a_role_are_paired_by_start() {
        let references = [process(None, "worker", 9), process(None, "worker", 5), process(None, "main", 1)];
        let others = [process(None, "main", 20), process(None, "worker", 21), process(None, "worker", 22)];
        assert_eq!(pair(&references, &others), [Some(2), Some(1), Some(0)]);
        // A rank's children are of its rank.
        let references =
            [process(Some(0), "main", 1), process(Some(0), "loader", 2), process(Some(1), "loader", 0)];
        let others =
            [process(Some(1), "loader", 8), process(Some(0), "loader", 9), process(Some(0), "main", 7)];
        assert_eq!(pair(&references, &others), [Some(2), Some(1), Some(0)]);
    }

    #[test]
    fn what_is_left_is_paired_where_it_launched() {
        let silent = |process: PairedProcess<'static>| PairedProcess { has_launches: false, ..process };
        let references = [silent(process(None, "a", 1)), process(None, "b --port 1", 2)];
        assert_eq!(
            pair(&references, &[process(None, "b --port 2", 3), silent(process(None, "c", 4))]),
            [Some(1), None]
        );
        let of_other_host = PairedProcess { part: 1, ..process(None, "b --port 1", 2) };
        assert_eq!(pair(&[of_other_host], &[process(None, "b --port 1", 2)]), [None]);
    }

    fn any_process() -> impl Strategy<Value = PairedProcess<'static>> {
        let ranks = prop_oneof![Just(None), (0..3_u32).prop_map(Some)];
        let roles = prop_oneof![Just("a"), Just("b")];
        (ranks, roles, 0..4_i64, any::<bool>(), 0..2_usize).prop_map(
            |(rank, role, started_ns, has_launches, part)| PairedProcess {
                rank,
                part,
                role: (role, ""),
                started_ns,
                has_launches,
            },
        )
    }

    proptest! {
        #[test]
        fn no_two_ranks_are_ever_paired(
            references in prop::collection::vec(any_process(), 0..8),
            processes in prop::collection::vec(any_process(), 0..8),
        ) {
            let pairs = pair(&references, &processes);
            let mut taken: Vec<usize> = pairs.iter().copied().flatten().collect();
            for (process, reference) in processes.iter().zip(&pairs) {
                if let Some(reference) = reference {
                    prop_assert_eq!(process.rank, references[*reference].rank);
                    prop_assert!(process.rank.is_some() || process.part == references[*reference].part);
                }
            }
            taken.sort_unstable();
            let count = taken.len();
            taken.dedup();
            prop_assert_eq!(taken.len(), count, "a reference is one process");
            // A process equal to itself in the other pass finds itself.
            let own: Vec<_> = (0..references.len()).map(Some).collect();
            prop_assert_eq!(pair(&references, &references), own);
        }
    }
}
