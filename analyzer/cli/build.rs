//! Build script: with `STALLMAP_FOLD` set, the linker folds equal functions into one, which removes 8 of 111 MB of code.
//!
//! Copies come from generic code, built again in each crate that uses it. Only LLD and gold can fold, so a plain build
//! does not ask for it. Rust promises no distinct addresses of functions.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=STALLMAP_FOLD");
    if std::env::var_os("STALLMAP_FOLD").is_some() {
        println!("cargo::rustc-link-arg-bins=-Wl,--icf=all");
    }
}
