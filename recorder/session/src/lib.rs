//! The recording of one process: its session, PyTorch's events, and what both GPU passes share.
//!
//! One [`session`] a process takes rows of the schema from an instrument and from PyTorch. A writer thread appends them
//! to the recording's segment file.
//!
//! Four things must never happen in the host program: a panic that leaves this library, output on stdout, an exit, and
//! a lock held while the program's own code runs. Every callback goes through [`guard::guard`].

pub mod context;
pub mod frames;
pub mod gpu;
pub mod guard;
pub mod native;
pub mod nvtx;
pub mod ranges;
pub mod replayed;
pub mod session;
pub mod slot;
pub mod torch;
