//! Joins that DataFusion 55 lacks: by intervals, with filters by the keys of joins, and with pauses.

pub mod few;
mod groups;
mod intervals;
mod join;
#[cfg(test)]
mod join_tests;
pub mod keys;
#[cfg(test)]
mod pause_tests;
pub mod pauses;
pub mod rule;
#[cfg(test)]
mod size_tests;
pub mod sizes;
