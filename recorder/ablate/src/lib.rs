//! Experiments on machine code: kernels without some of their memory instructions.
//!
//! ```text
//! accesses of a launch ── sets ──► Experiment: instructions of one tensor, of one line, one instruction
//!                                      │
//!              cubin ── Code ── reach ─┤ refused where a result is an address or a barrier waits for it
//!                         │            │
//!                         └─ without ──┴─► cubin in which they are issued and do nothing
//! ```
//!
//! Pure: bytes and rows in, bytes and values out.

mod calls;
mod code;
mod reach;
mod sets;

pub use code::{FunctionCubin, InstructionAddress, OmissionEffect};
pub use reach::OmissionRefusal;
pub use sets::{Experiment, ExperimentKinds, LaunchAccesses, MAX_EXPERIMENTS};
