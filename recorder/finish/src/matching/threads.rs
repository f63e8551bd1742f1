//! Threads of two runs, which are numbered as they come.

use std::collections::{BTreeMap, BTreeSet};

use super::CountedLaunch;

/// The reference's thread for each thread of a run: one that launches the same things, with the same number if there
/// are several. A thread that launches other things in the two runs gets the one with the same number.
pub(super) fn pair(reference: &[CountedLaunch], run: &[CountedLaunch]) -> BTreeMap<u32, u32> {
    let (references, roles) = (roles(reference), roles(run));
    let mut free: BTreeSet<u32> = references.keys().copied().collect();
    let mut threads = BTreeMap::new();
    for (&thread, role) in &roles {
        if references.get(&thread) == Some(role) {
            free.remove(&thread);
            threads.insert(thread, thread);
        }
    }
    let mut by_role: BTreeMap<&ThreadRole, Vec<u32>> = BTreeMap::new();
    for (&thread, role) in references.iter().rev().filter(|(thread, _)| free.contains(*thread)) {
        by_role.entry(role).or_default().push(thread);
    }
    for (&thread, role) in &roles {
        if !threads.contains_key(&thread)
            && let Some(other) = by_role.get_mut(role).and_then(Vec::pop)
        {
            free.remove(&other);
            threads.insert(thread, other);
        }
    }
    for &thread in roles.keys() {
        if !threads.contains_key(&thread) && free.remove(&thread) {
            threads.insert(thread, thread);
        }
    }
    threads
}

/// The set of things that a thread launches: numbers of likenesses.
type ThreadRole = BTreeSet<u32>;

fn roles(launches: &[CountedLaunch]) -> BTreeMap<u32, ThreadRole> {
    let mut roles: BTreeMap<u32, ThreadRole> = BTreeMap::new();
    for launch in launches {
        roles.entry(launch.thread_id).or_default().insert(launch.likeness);
    }
    roles
}
