//! Damaged cubins: their parts, their lines and their control flow.

#![no_main]

#[path = "../exercise/cubin.rs"]
mod exercise;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| exercise::cubin(bytes));
