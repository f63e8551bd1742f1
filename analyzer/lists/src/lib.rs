//! Ranked lists and trees: `stallmap top`, `tree`, `forest` and `diff`.

pub mod diff;
pub mod forest;
pub mod top;
pub mod tree;
