//! Captures made by hand, for tests and benchmarks.

pub mod repeat;
mod replay;
pub mod summarized;
pub mod tiny;
pub mod tree;
