//! Captures made by hand, for tests and benchmarks.

mod replay;
pub mod tiny;
pub mod tree;
