//! Embeds `sql/<package>/<name>.sql` as a list of (package, name, text).

use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let root = Path::new(&env::var("CARGO_MANIFEST_DIR").map_err(io::Error::other)?).join("../sql");
    println!("cargo::rerun-if-changed={}", root.display());
    let mut files = Vec::new();
    for package in fs::read_dir(&root)? {
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
