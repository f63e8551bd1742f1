//! Selection of launches that become bundles.

use std::collections::{BTreeMap, BTreeSet};

use stallmap_config::{BundleSelection, KernelShape};

use stallmap_session::gpu::kernels::KernelNames;

/// Key of launches that are so alike that one bundle stands for all.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LaunchKind {
    /// The kernel and its shape.
    pub kernel: KernelShape,
    /// Dynamic shared memory of a block.
    pub shared_bytes: u32,
    /// The shapes of the op's arguments.
    pub shapes_hash: u64,
}

/// Limit of refused launches of a kind in a row. Further ones are not tried, because saving memory takes time.
const MAX_REFUSED: u32 = 4;

#[derive(Clone, Copy, Default)]
struct BundleAttempts {
    recorded: u64,
    /// Since the last that was recorded.
    refused: u32,
}

/// The selection of a session.
pub struct BundleSelector {
    per_kind: Option<u64>,
    kernels: KernelNames,
    only: Option<BTreeSet<KernelShape>>,
    /// Results of the launches of each kind.
    tried: BTreeMap<LaunchKind, BundleAttempts>,
}

impl BundleSelector {
    /// The selection that the options ask for. An error is a bad regular expression.
    pub fn new(bundles: &BundleSelection) -> Result<Self, String> {
        Ok(Self {
            per_kind: bundles.per_kind,
            kernels: KernelNames::new(bundles.kernels.as_deref())?,
            only: bundles.only.clone().map(BTreeSet::from_iter),
            tried: BTreeMap::new(),
        })
    }

    /// Decides if a launch is to become a bundle. The error is the reason against it.
    pub fn decide(&self, kind: &LaunchKind) -> Result<(), &'static str> {
        if !self.kernels.hold(&kind.kernel.name)
            || self.only.as_ref().is_some_and(|only| !only.contains(&kind.kernel))
        {
            return Err("not selected: its kernel");
        }
        let tried = self.tried.get(kind).copied().unwrap_or_default();
        if self.per_kind.is_some_and(|most| tried.recorded >= most) {
            Err("not selected: its kind has a bundle")
        } else if tried.refused >= MAX_REFUSED {
            Err("not selected: its kind was refused before")
        } else {
            Ok(())
        }
    }

    /// A launch of this kind became a bundle.
    pub fn succeeded(&mut self, kind: LaunchKind) {
        let tried = self.tried.entry(kind).or_default();
        *tried = BundleAttempts { recorded: tried.recorded + 1, refused: 0 };
    }

    /// A launch of this kind was refused.
    pub fn refused(&mut self, kind: LaunchKind) {
        self.tried.entry(kind).or_default().refused += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(name: &str, blocks: u32, shapes_hash: u64) -> LaunchKind {
        let kernel = KernelShape { name: name.into(), shape: [blocks, 1, 1, 32, 1, 1] };
        LaunchKind { kernel, shared_bytes: 0, shapes_hash }
    }

    #[test]
    fn a_kind_is_full_when_enough_of_it_succeeded() {
        let mut selection =
            BundleSelector::new(&BundleSelection { per_kind: Some(2), ..BundleSelection::default() })
                .unwrap();
        let one = kind("k", 1, 7);
        for _ in 0..2 {
            assert_eq!(selection.decide(&one), Ok(()));
            assert_eq!(selection.decide(&one), Ok(()), "a launch that failed does not count");
            selection.succeeded(one.clone());
        }
        assert!(selection.decide(&one).is_err());
        assert_eq!(selection.decide(&kind("k", 2, 7)), Ok(()));
        assert_eq!(selection.decide(&kind("k", 1, 8)), Ok(()));
    }

    #[test]
    fn a_kind_that_is_refused_again_and_again_is_left_alone() {
        let mut selection =
            BundleSelector::new(&BundleSelection { per_kind: None, ..BundleSelection::default() }).unwrap();
        let one = kind("k", 1, 0);
        for _ in 1..MAX_REFUSED {
            selection.refused(one.clone());
        }
        selection.succeeded(one.clone());
        for _ in 0..MAX_REFUSED {
            assert_eq!(selection.decide(&one), Ok(()));
            selection.refused(one.clone());
        }
        assert_eq!(selection.decide(&one), Err("not selected: its kind was refused before"));
    }

    #[test]
    fn only_listed_shapes() {
        let only = Some(vec![kind("k", 4, 0).kernel]);
        let selection = BundleSelector::new(&BundleSelection { only, ..BundleSelection::default() }).unwrap();
        assert_eq!(selection.decide(&kind("k", 4, 9)), Ok(()));
        assert!(selection.decide(&kind("k", 5, 9)).is_err());
    }
}
