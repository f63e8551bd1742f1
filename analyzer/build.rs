//! Embeds `sql/<package>/<name>.sql` as a list of (package, name, text), and names the version of the code analysis.

use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let package = env::var("CARGO_MANIFEST_DIR").map_err(io::Error::other)?;
    let version = analysis_version(&Path::new(&package).join("sass/src"))?;
    println!("cargo::rustc-env=STALLMAP_ANALYSIS_VERSION={version:016x}");
    embed_views(&Path::new(&package).join("../sql"))
}

/// Hashes the sources of the crate that analyzes code. Results cached by one version are not read by another, without
/// manual version numbers. FNV-1a, 64 bits.
fn analysis_version(folder: &Path) -> io::Result<u64> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
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

fn embed_views(root: &Path) -> io::Result<()> {
    println!("cargo::rerun-if-changed={}", root.display());
    let mut files = Vec::new();
    for package in fs::read_dir(root)? {
        let package = package?.path();
        if !package.is_dir() {
            continue;
        }
        println!("cargo::rerun-if-changed={}", package.display());
        for file in fs::read_dir(&package)? {
            let file = file?.path();
            if file.extension().is_some_and(|extension| extension == "sql") {
                files.push(file.canonicalize()?);
            }
        }
    }
    files.sort();
    let mut list = String::from("const FILES: &[(&str, &str, &str)] = &[\n");
    for file in &files {
        let package = file.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy();
        let name = file.file_stem().unwrap_or_default().to_string_lossy();
        let path = file.to_string_lossy();
        writeln!(list, "    ({package:?}, {name:?}, include_str!({path:?})),").map_err(io::Error::other)?;
    }
    list += "];\n";
    fs::write(Path::new(&env::var("OUT_DIR").map_err(io::Error::other)?).join("library.rs"), list)
}
