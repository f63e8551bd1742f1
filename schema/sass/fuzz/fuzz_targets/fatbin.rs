//! Damaged fatbins, and host files with them.

#![no_main]

#[path = "../exercise/fatbin.rs"]
mod exercise;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| exercise::fatbin(bytes));
