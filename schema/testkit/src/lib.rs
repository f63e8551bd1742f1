//! Captures made by hand, for tests and benchmarks.

mod replay;
pub mod summarized;
pub mod tiny;
pub mod tree;
