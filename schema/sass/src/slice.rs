//! Waits in machine code: control flow, scoreboard barriers, and the producers that an instruction waits for.
//!
//! ```text
//! Instructions ── FlowGraph (blocks, edges) ── scoreboard (candidates) ── registers, stall reasons ── Producer
//! ```
//!
//! Pure: instructions in, values out. No files, no tables, no statistics of a run. Damaged code gives other answers,
//! never a panic. The work is bounded: see [`work`].

pub mod analysis;
pub mod axes;
pub mod graph;
pub mod work;

mod copies;
mod definitions;
mod descriptors;
mod fills;
mod loops;
mod mbarrier;
mod pointers;
mod producers;
mod scoreboard;
mod signals;
mod slots;
mod value;
