//! Ranked lists and trees: `stallmap top`, `tree`, `forest` and `diff`. The list of a block's accesses.

pub mod block;
pub mod diff;
pub mod filter;
pub mod forest;
pub mod kernel;
mod known;
pub mod top;
pub mod tree;
pub mod trend;
pub mod verdict;
