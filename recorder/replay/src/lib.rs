//! Runs recorded launches again, in a process of their own.
//!
//! ```text
//! capture
//!   → bundle   launches with code, parameters, pages
//!   → address_space   the recorded addresses, reserved and mapped
//!   → memory   filled, compared, restored
//!   → worker   replays under the session's instrument
//!   → attempt  the effect of each replay on memory becomes rows
//!   → worker/experiments   the whole launch and parts of it, timed in turn
//! ```
//!
//! `stallmap-record replay` starts workers, one a process, and brings their rows back into the capture.

pub mod ablate;
pub mod address_space;
pub mod attempt;
pub mod bundle;
pub mod elf;
pub mod error;
pub mod export;
pub mod flush;
pub mod gpu;
pub mod median;
pub mod memory;
pub mod near;
pub mod plan;
pub mod precision;
pub mod worker;
