//! Instruments in a process: a session, one instrument of the GPU, and reports of PyTorch about its tensors.
//!
//! It starts one [`session`] per process, attaches one instrument ([`gpu::sanitizer`] or [`gpu::pc_sampling`]) and
//! turns its reports into rows of the schema, which a writer thread appends to the recording's segment file.
//!
//! Four things must never happen in the host program: a panic that leaves this library, output on stdout, an exit, and
//! a lock held while the program's own code runs. Every callback goes through [`guard::guard`].

pub mod context;
pub mod gpu;
pub mod guard;
pub mod replayed;
pub mod session;
pub mod torch;
