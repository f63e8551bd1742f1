//! The critical path of each step, and what a step would take without an item of it.
//!
//! ```text
//! launches, work, ops ──> read, threads, stretches ──> model ──> causes ──┬─> walk ──────> critical_segment
//! launch_phase ─────────> windows ────────────────────────────────────────┴─> without ──> critical_item
//! ```

mod causes;
mod model;
mod read;
pub mod row;
mod stretches;
pub mod table;
#[cfg(test)]
mod tests;
mod threads;
mod walk;
mod windows;
mod without;
