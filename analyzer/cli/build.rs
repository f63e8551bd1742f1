//! Build script: the release program folds equal functions into one, which removes 8 of 111 MB of machine code.
//!
//! Copies come from generic code, built again in each crate that uses it. The toolchain's linker for Linux on x86-64 is
//! LLD, which can fold. Rust promises no distinct addresses of functions.

use std::env;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is = |name: &str, value: &str| env::var(name).is_ok_and(|found| found == value);
    if is("PROFILE", "release") && is("TARGET", "x86_64-unknown-linux-gnu") {
        println!("cargo::rustc-link-arg-bins=-Wl,--icf=all");
    }
}
