//! Names the version of the code analysis: a hash of the sources of the crates that analyze code.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let package = env::var("CARGO_MANIFEST_DIR").map_err(io::Error::other)?;
    let folders = ["../../schema/sass/src"];
    let version = analysis_version(folders.map(|folder| Path::new(&package).join(folder)).to_vec())?;
    println!("cargo::rustc-env=STALLMAP_ANALYSIS_VERSION={version:016x}");
    Ok(())
}

/// Hashes the sources of the crates that analyze code. Results cached by one version are not read by another, without
/// manual version numbers. FNV-1a, 64 bits.
fn analysis_version(mut folders: Vec<PathBuf>) -> io::Result<u64> {
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        println!("cargo::rerun-if-changed={}", folder.display());
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            if path.is_dir() { folders.push(path) } else { files.push(path) }
        }
    }
    files.sort();
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for file in files {
        println!("cargo::rerun-if-changed={}", file.display());
        for byte in fs::read(&file)? {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
    }
    Ok(hash)
}
