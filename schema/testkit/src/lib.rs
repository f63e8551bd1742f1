//! Captures made by hand, for tests and benchmarks.

pub mod protobuf;
pub mod repeat;
mod replay;
mod shapes;
pub mod summarized;
pub mod tiny;
pub mod tree;
