//! The library that is injected into the recorded program: exported symbols only, each behind a guard.
//!
//! The driver loads it at `cuInit` (`CUDA_INJECTION64_PATH`) and calls [`entry::InitializeInjection`]. Python may have
//! loaded it earlier, and NVTX at its first call (`NVTX_INJECTION64_PATH`). What they do is in `recorder/instruments`.

pub mod entry;
mod memory;
pub mod torch;
