//! Parts that DataFusion's planner lacks: joins by intervals, with filters by the keys of joins, and with pauses. Its rules, the
//! plans that do without some, and the bounds of planning.

pub mod bounds;
pub mod few;
#[cfg(test)]
mod few_tests;
mod groups;
mod intervals;
mod join;
#[cfg(test)]
mod join_tests;
mod key_filter;
pub mod keys;
mod known;
#[cfg(test)]
mod known_tests;
pub mod nulls;
pub mod pass;
mod passes;
#[cfg(test)]
mod pause_tests;
pub mod pauses;
mod plan_methods;
mod repeats;
pub mod rule;
#[cfg(test)]
mod size_tests;
pub mod sizes;
pub mod texts;
