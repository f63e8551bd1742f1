//! Joins that DataFusion 55 lacks: by intervals, and by address ranges with lifetimes.

mod intervals;
mod join;
#[cfg(test)]
mod join_tests;
pub mod life;
pub mod rule;
