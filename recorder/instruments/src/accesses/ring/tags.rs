//! Tags in use: a launch of a graph takes as many in a row as it has nodes.

use super::record::{LaunchTag, TAGS};

/// The tags of a ring, given out in a circle: a tag rests as long as possible before it is used again.
pub(super) struct LaunchTags {
    used: Vec<bool>,
    next: u32,
}

impl Default for LaunchTags {
    fn default() -> Self {
        Self { used: vec![false; TAGS as usize], next: 0 }
    }
}

impl LaunchTags {
    /// The first of `count` free tags, which follow each other, the first of all after the last; `None` where there are
    /// none.
    pub(super) fn take(&mut self, count: u32) -> Option<LaunchTag> {
        if count == 0 || count >= TAGS {
            return None;
        }
        let (mut first, mut skipped) = (self.next, 0);
        while skipped < TAGS {
            // The last one that is in use, since nothing before it can be the first.
            let busy = (0..count).rev().find(|offset| self.is_used(first + offset));
            let Some(busy) = busy else {
                (0..count).for_each(|offset| self.set(first + offset, true));
                self.next = (first + count) % TAGS;
                return Some(LaunchTag(first % TAGS));
            };
            first += busy + 1;
            skipped += busy + 1;
        }
        None
    }

    /// Tags are free again.
    pub(super) fn release(&mut self, tag: LaunchTag, count: u32) {
        (0..count).for_each(|offset| self.set(tag.0 + offset, false));
    }

    fn is_used(&self, tag: u32) -> bool {
        self.used.get((tag % TAGS) as usize).copied().unwrap_or(true)
    }

    fn set(&mut self, tag: u32, used: bool) {
        if let Some(slot) = self.used.get_mut((tag % TAGS) as usize) {
            *slot = used;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn tags_rest_before_they_are_used_again() {
        let mut tags = LaunchTags::default();
        let first = tags.take(1).unwrap();
        tags.release(first, 1);
        assert_eq!((first, tags.take(1)), (LaunchTag(0), Some(LaunchTag(1))));
    }

    #[test]
    fn what_is_in_use_is_stepped_over_and_the_circle_closes() {
        let mut tags = LaunchTags::default();
        assert_eq!(tags.take(TAGS - 10), Some(LaunchTag(0)));
        assert_eq!(tags.take(20), None);
        tags.release(LaunchTag(0), 15);
        assert_eq!(tags.take(20), Some(LaunchTag(TAGS - 10)));
        assert_eq!(tags.take(6), None);
        assert_eq!(tags.take(5), Some(LaunchTag(10)));
        assert_eq!(tags.take(1), None);
        assert_eq!(LaunchTags::default().take(TAGS), None);
    }

    proptest! {
        #[test]
        fn no_tag_is_given_out_twice(calls in prop::collection::vec((1..4000_u32, any::<bool>()), 1..60)) {
            let (mut tags, mut held, mut used) = (LaunchTags::default(), Vec::new(), BTreeSet::new());
            for (count, releases) in calls {
                if releases && !held.is_empty() {
                    let (tag, count): (LaunchTag, u32) = held.remove(held.len() / 2);
                    tags.release(tag, count);
                    (0..count).for_each(|offset| { used.remove(&((tag.0 + offset) % TAGS)); });
                } else if let Some(tag) = tags.take(count) {
                    for offset in 0..count {
                        prop_assert!(used.insert((tag.0 + offset) % TAGS));
                    }
                    held.push((tag, count));
                }
            }
        }
    }
}
