//! Build script: embeds the Python packages, which leaves one executable and one library to install.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let mut files = Vec::new();
    for (root, package) in
        [("../python", "hook"), ("../python", "_stallmap_record"), ("../../python", "stallmap")]
    {
        let root = fs::canonicalize(root)?;
        println!("cargo::rerun-if-changed={}", root.join(package).display());
        let mut found = Vec::new();
        python_files(&root.join(package), &mut found)?;
        let named = |file: PathBuf| (file.strip_prefix(&root).unwrap_or(&file).display().to_string(), file);
        files.extend(found.into_iter().map(named));
    }
    files.sort();
    let mut table = String::from("&[\n");
    for (name, file) in &files {
        writeln!(table, "    ({name:?}, include_str!({:?})),", file.display().to_string())
            .map_err(io::Error::other)?;
    }
    table.push(']');
    let folder = env::var_os("OUT_DIR").map(PathBuf::from).unwrap_or_default();
    fs::write(folder.join("python_files.rs"), table)
}

fn python_files(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    if !folder.is_dir() {
        return Ok(());
    }
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            // The tests of the package stay at home.
            if path.file_name().is_some_and(|name| name != "tests" && name != "__pycache__") {
                python_files(&path, files)?;
            }
        } else if path.extension().is_some_and(|extension| extension == "py") {
            files.push(path);
        }
    }
    Ok(())
}
