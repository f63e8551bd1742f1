//! Any sixteen bytes, for every architecture.

#![no_main]

#[path = "../exercise/instruction.rs"]
mod exercise;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| exercise::instruction(bytes));
