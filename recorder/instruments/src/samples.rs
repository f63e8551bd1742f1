//! CUPTI's instruments: samples of stall reasons, times of all work, and hardware counters of replays.

pub mod counters;
pub mod pc_sampling;
mod timeline;
