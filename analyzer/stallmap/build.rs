//! Embeds the SQL library: views and the cookbook as lists of (package, name, text), and the queries of commands as
//! constants such as `report::TENSORS`. Hashes all that decides the rows of a view: see `session/stored.rs`.

use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let package = env::var("CARGO_MANIFEST_DIR").map_err(io::Error::other)?;
    let root = Path::new(&package).join("../../sql");
    let lists = [
        list("VIEWS", &packages(&root.join("views"))?)?,
        list("FLEET_VIEWS", &[root.join("fleet")])?,
        list("RECIPES", &[root.join("cookbook")])?,
    ];
    let out = env::var("OUT_DIR").map_err(io::Error::other)?;
    fs::write(Path::new(&out).join("library.rs"), lists.concat())?;
    fs::write(Path::new(&out).join("rules.rs"), rules(&Path::new(&package).join("../.."))?)?;
    fs::write(Path::new(&out).join("queries.rs"), index(&packages(&root.join("queries"))?)?)
}

/// Everything that decides the rows of a view: the code that reads captures and computes, its dependencies, and the views.
const RULES: [&str; 7] = [
    "Cargo.lock",
    "schema",
    "analyzer/tables/src",
    "analyzer/engine/src",
    "analyzer/stallmap/src/session",
    "analyzer/stallmap/src/session.rs",
    "sql/views",
];

/// A constant that changes with any of the rules.
fn rules(root: &Path) -> io::Result<String> {
    let mut hasher = DefaultHasher::new();
    for rule in RULES {
        hash(&root.join(rule), &mut hasher)?;
    }
    Ok(format!(
        "/// The rules that made stored rows.\npub(crate) const RULES: &str = \"{:016x}\";\n",
        hasher.finish()
    ))
}

/// Hashes the sources in a file or folder.
fn hash(path: &Path, hasher: &mut DefaultHasher) -> io::Result<()> {
    println!("cargo::rerun-if-changed={}", path.display());
    if path.is_dir() {
        let mut entries: Vec<PathBuf> =
            fs::read_dir(path)?.map(|entry| entry.map(|entry| entry.path())).collect::<io::Result<_>>()?;
        entries.sort();
        return entries.iter().try_for_each(|entry| hash(entry, hasher));
    }
    if path.extension().is_some_and(|ending| ["rs", "sql", "lock"].iter().any(|known| ending == *known)) {
        fs::read(path)?.hash(hasher);
    }
    Ok(())
}

/// A module for each folder, with a constant for each of its queries and a list of all.
fn index(folders: &[PathBuf]) -> io::Result<String> {
    let mut text = String::new();
    let mut all =
        String::from("/// Every query with its folder.\npub const ALL: &[(&str, CommandQuery)] = &[\n");
    for folder in folders {
        let command = name(folder);
        write!(
            text,
            "/// The queries in `sql/queries/{command}`.\npub mod {command} {{\n    use super::CommandQuery;\n"
        )
        .map_err(io::Error::other)?;
        for file in &files(folder)? {
            let (query, path) = (name(file), file.to_string_lossy());
            let constant = query.to_uppercase();
            write!(
                text,
                "    /// `{query}.sql`.\n    pub const {constant}: CommandQuery = CommandQuery::new({command:?}, {query:?}, include_str!({path:?}));\n"
            )
            .map_err(io::Error::other)?;
            writeln!(all, "    ({command:?}, {command}::{constant}),").map_err(io::Error::other)?;
        }
        text += "}\n";
    }
    Ok(text + &all + "];\n")
}

/// The folders in a folder.
fn packages(folder: &Path) -> io::Result<Vec<PathBuf>> {
    println!("cargo::rerun-if-changed={}", folder.display());
    let entries = fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.path()));
    let mut paths: Vec<PathBuf> = entries.collect::<io::Result<_>>()?;
    paths.retain(|path| path.is_dir());
    paths.sort();
    Ok(paths)
}

/// A constant that holds the files of some folders.
fn list(constant: &str, folders: &[PathBuf]) -> io::Result<String> {
    let mut text = format!("const {constant}: &[(&str, &str, &str)] = &[\n");
    for folder in folders {
        let package = name(folder);
        for file in files(folder)? {
            let (name, path) = (name(&file), file.to_string_lossy());
            writeln!(text, "    ({package:?}, {name:?}, include_str!({path:?})),")
                .map_err(io::Error::other)?;
        }
    }
    Ok(text + "];\n")
}

/// The SQL files of a folder by name.
fn files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    println!("cargo::rerun-if-changed={}", folder.display());
    let mut files = Vec::new();
    for file in fs::read_dir(folder)? {
        let file = file?.path();
        if file.extension().is_some_and(|extension| extension == "sql") {
            files.push(file.canonicalize()?);
        }
    }
    files.sort();
    Ok(files)
}

/// The name of a file or folder without its ending.
fn name(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}
