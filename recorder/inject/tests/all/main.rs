//! Tests of the library inside real programs, in one binary.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod faults;
mod frames;
mod native;
mod nvtx;
mod python;
