//! Kernels of a trace and launches of a capture, matched by name, grid and block within ops, in order.
//!
//! Within a key both sides have to have the same number: where they differ, a partner would be a guess.

use std::collections::BTreeMap;

use stallmap_schema::id::KernelId;

/// A launch or a kernel, by its normalized names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct NormalizedName {
    pub(super) name: String,
    pub(super) grid: [u32; 3],
    pub(super) block: [u32; 3],
    /// The op around it.
    pub(super) op: Option<String>,
}

/// Partners of kernels, and the numbers of kernels without one.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct MatchedKernels {
    /// Launches by the places of kernels.
    pub(super) launches: BTreeMap<usize, KernelId>,
    /// Kernels of a kind that the capture has another number of.
    pub(super) differing: u64,
    /// Kernels of a kind that the capture does not have.
    pub(super) missing: u64,
}

/// Members of one kind, in order.
type KindMembers<T> = BTreeMap<NormalizedName, Vec<T>>;

/// Matches kernels, each with its kind, in the order of their calls. First within ops, then without them.
pub(super) fn matched(
    kernels: &[(usize, NormalizedName)],
    launches: &[(KernelId, NormalizedName)],
) -> MatchedKernels {
    let mut found = MatchedKernels::default();
    let (kernels, launches) = pair(groups(kernels.to_vec()), groups(launches.to_vec()), &mut found);
    let (kernels, launches) = pair(without_ops(kernels), without_ops(launches), &mut found);
    for (kind, members) in kernels {
        let count = members.len() as u64;
        *(if launches.contains_key(&kind) { &mut found.differing } else { &mut found.missing }) += count;
    }
    found
}

fn groups<T>(members: Vec<(T, NormalizedName)>) -> KindMembers<T> {
    let mut found: KindMembers<T> = BTreeMap::new();
    for (member, kind) in members {
        found.entry(kind).or_default().push(member);
    }
    found
}

/// Members by kind without the op. Their order is that of their numbers, which count calls.
fn without_ops<T: Ord>(members: KindMembers<T>) -> KindMembers<T> {
    let mut found: KindMembers<T> = BTreeMap::new();
    for (kind, members) in members {
        found.entry(NormalizedName { op: None, ..kind }).or_default().extend(members);
    }
    for members in found.values_mut() {
        members.sort_unstable();
    }
    found
}

/// Pairs the members of kinds that both sides have the same number of. Returns all others.
fn pair(
    kernels: KindMembers<usize>,
    mut launches: KindMembers<KernelId>,
    found: &mut MatchedKernels,
) -> (KindMembers<usize>, KindMembers<KernelId>) {
    let mut rest = KindMembers::new();
    for (kind, members) in kernels {
        let partners = launches.get(&kind).filter(|partners| partners.len() == members.len());
        if partners.is_some() {
            let partners = launches.remove(&kind).unwrap_or_default();
            found.launches.extend(members.into_iter().zip(partners));
        } else {
            rest.insert(kind, members);
        }
    }
    (rest, launches)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(name: &str, op: Option<&str>) -> NormalizedName {
        NormalizedName {
            name: name.to_owned(),
            grid: [1, 1, 1],
            block: [32, 1, 1],
            op: op.map(str::to_owned),
        }
    }

    #[test]
    fn equal_numbers_pair_in_order_and_others_stay_apart() {
        let kernels = [
            (0, kind("a", Some("mm"))),
            (1, kind("a", Some("add"))),
            (2, kind("a", Some("mm"))),
            (3, kind("b", None)),
            (4, kind("c", Some("mm"))),
            (5, kind("d", None)),
        ];
        let launches = [
            (KernelId(10), kind("a", Some("mm"))),
            (KernelId(11), kind("a", Some("mm"))),
            (KernelId(12), kind("a", Some("add"))),
            (KernelId(13), kind("b", Some("relu"))),
            (KernelId(14), kind("c", Some("mm"))),
            (KernelId(15), kind("c", Some("mm"))),
        ];
        let found = matched(&kernels, &launches);
        let pairs: Vec<(usize, u64)> =
            found.launches.iter().map(|(place, launch)| (*place, launch.0)).collect();
        assert_eq!(pairs, [(0, 10), (1, 12), (2, 11), (3, 13)]);
        assert_eq!((found.differing, found.missing), (1, 1));
    }
}
