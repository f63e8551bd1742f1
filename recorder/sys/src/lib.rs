//! Raw access to NVIDIA's libraries, all opened at run time: a missing library is a value, not a crash.
//!
//! Types and entry points as the C headers give them, with no logic; [`load`] opens a library and looks up its symbols.
//! CUPTI's types come from cudarc, its symbols do not: cudarc's loader panics where a symbol is missing, and opens a
//! plain `libcupti.so` even when the program has loaded another one.

pub mod cuda;
pub mod cupti;
pub mod load;
pub mod locate;
pub mod nvrtc;
pub mod nvtx;
pub mod probe;
pub mod profiler;
pub mod replayer;
pub mod sanitizer;
