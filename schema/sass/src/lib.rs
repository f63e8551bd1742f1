//! SASS, the machine code of NVIDIA's GPUs since Volta (sm_70 to sm_121), read without NVIDIA's tools.
//!
//! ```text
//! cubin bytes ── Cubin ── Section (code, functions) ── decode ── Instruction
//! ```
//!
//! [`splice`] adds code to a kernel.
//!
//! Pure: bytes in, values out. No files, no tables, no statistics of a run. Every input may be damaged: unreadable
//! input is an error or an unknown instruction, never a panic.

pub mod control;
pub mod cubin;
pub mod instruction;
pub mod line;
pub mod literal;
pub mod observable;
pub mod register;
pub mod slice;
pub mod splice;
pub mod word;

mod decode;
mod demangle;
mod elf;
mod modifiers;

pub use decode::decode;
pub use demangle::{demangle, demangle_name};
