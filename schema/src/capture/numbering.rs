//! Numbers of launches, ops, storages, tensors, allocations and contents: small and dense in a capture.
//!
//! Things are numbered run after run: an identifier is the run's own number plus the numbers that earlier runs took, so the
//! launches of the first run are 0, 1, 2, ...

/// Things that are numbered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum IdSpace {
    /// `kernel_id`.
    Launch,
    /// `op_id`.
    Op,
    /// `storage_id`.
    Storage,
    /// `tensor_id`.
    Tensor,
    /// `allocation_id`.
    Allocation,
    /// `content_id`.
    Content,
}

impl IdSpace {
    /// Every space.
    pub const ALL: [Self; 6] =
        [Self::Launch, Self::Op, Self::Storage, Self::Tensor, Self::Allocation, Self::Content];

    /// The first number of a run: a launch's is its position among the run's launches.
    pub const fn first(self) -> u64 {
        match self {
            Self::Launch => 0,
            Self::Op | Self::Storage | Self::Tensor | Self::Allocation | Self::Content => 1,
        }
    }

    /// Numbers that a run takes whose last one is given.
    pub const fn taken(self, last: u64) -> u64 {
        (last + 1).saturating_sub(self.first())
    }
}
