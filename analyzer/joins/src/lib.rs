//! Joins that DataFusion 55 lacks: by intervals.

mod intervals;
mod join;
#[cfg(test)]
mod join_tests;
pub mod rule;
