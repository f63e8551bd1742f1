//! Joins that DataFusion 55 lacks: by intervals, and filters by the keys of joins.

mod intervals;
mod join;
#[cfg(test)]
mod join_tests;
pub mod keys;
pub mod rule;
