//! Embeds the SQL library: `sql/{views,queries}/<package>/<name>.sql` and `sql/cookbook/<name>.sql`, as lists of
//! (package, name, text).

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let package = env::var("CARGO_MANIFEST_DIR").map_err(io::Error::other)?;
    let root = Path::new(&package).join("../../sql");
    let lists = [
        list("VIEWS", &packages(&root.join("views"))?)?,
        list("QUERY_FILES", &packages(&root.join("queries"))?)?,
        list("RECIPES", &[root.join("cookbook")])?,
    ];
    fs::write(Path::new(&env::var("OUT_DIR").map_err(io::Error::other)?).join("library.rs"), lists.concat())
}

/// The folders in a folder.
fn packages(folder: &Path) -> io::Result<Vec<PathBuf>> {
    println!("cargo::rerun-if-changed={}", folder.display());
    let entries = fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.path()));
    let paths: Vec<PathBuf> = entries.collect::<io::Result<_>>()?;
    Ok(paths.into_iter().filter(|path| path.is_dir()).collect())
}

/// A constant that holds the queries of some folders.
fn list(constant: &str, folders: &[PathBuf]) -> io::Result<String> {
    let mut files = Vec::new();
    for folder in folders {
        println!("cargo::rerun-if-changed={}", folder.display());
        for file in fs::read_dir(folder)? {
            let file = file?.path();
            if file.extension().is_some_and(|extension| extension == "sql") {
                files.push(file.canonicalize()?);
            }
        }
    }
    files.sort();
    let mut text = format!("const {constant}: &[(&str, &str, &str)] = &[\n");
    for file in &files {
        let package = file.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy();
        let name = file.file_stem().unwrap_or_default().to_string_lossy();
        let path = file.to_string_lossy();
        writeln!(text, "    ({package:?}, {name:?}, include_str!({path:?})),").map_err(io::Error::other)?;
    }
    Ok(text + "];\n")
}
