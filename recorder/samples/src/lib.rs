//! CUPTI's instruments: samples of stall reasons, and hardware counters of replays.

pub mod counters;
pub mod pc_sampling;
