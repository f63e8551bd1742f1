//! Phases of a program: set-up, the steps that it repeats, and its end. And the critical path of each step.
//!
//! ```text
//! ranges, calls of the optimizer ──> recorded ───────────┐
//! sequence of kernels ──> sketch ──> period ──> nested ──┴─> phases ──> launch_phase
//! ```

pub mod critical;
mod nested;
mod period;
mod phases;
mod ranges;
mod read;
mod recorded;
pub mod row;
mod sequence;
mod sketch;
pub mod table;
#[cfg(test)]
mod tests;
