//! Experiments on launches: kernels without some of their memory instructions, and with other memory behind them.
//!
//! ```text
//! accesses of a launch ── sets ──► Experiment: instructions of one tensor, of one line, one instruction
//!                                      │
//!              cubin ── Code ── reach ─┤ refused where a result is an address or a barrier waits for it
//!                         │            │
//!                         └─ without ──┴─► cubin in which they are issued and do nothing
//! pages of a launch ──── redirect ──► Experiment: granules of one object that are led to a few, which stay in L2
//! ```
//!
//! Pure: bytes and rows in, bytes and values out.

mod calls;
mod code;
mod reach;
mod redirect;
mod sets;

pub use code::{FunctionCubin, InstructionAddress, OmissionEffect, SourceCopy};
pub use reach::OmissionRefusal;
pub use redirect::{LaunchMemory, REDIRECT_GRANULE_BYTES, RedirectedMemory, TouchedPage};
pub use sets::{Experiment, ExperimentKinds, LaunchAccesses, MAX_EXPERIMENTS};
