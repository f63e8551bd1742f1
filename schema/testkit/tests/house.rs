//! The rules of the workspace's layout: dependencies between crates, output, `unsafe`, and size.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Crates, without the fuzzers.
const MAX_CRATES: usize = 27;
/// Crates of the longest chain of dependencies.
const MAX_FLOORS: usize = 9;
/// Places that may hold `unsafe`: calls of CUDA and NVTX, exported symbols, Python's frames, the memory map of a run's counts.
const UNSAFE: [&str; 14] = [
    "recorder/sys/",
    "recorder/session/src/frames",
    "recorder/session/src/gpu/",
    "recorder/session/src/native",
    "recorder/session/src/nvtx.rs",
    "recorder/session/src/session/host.rs",
    "recorder/session/src/session/progress.rs",
    "recorder/session/src/session/quick_exit.rs",
    "recorder/session/src/torch/allocator_hook.rs",
    "recorder/instruments/src/accesses",
    "recorder/instruments/src/samples",
    "recorder/inject/",
    "recorder/replay/src/gpu.rs",
    "recorder/cli/src/memory.rs",
];
/// Places that may name stdout or stderr. The recorder's library has one, for messages on stderr.
const OUTPUT: [&str; 4] = [
    "analyzer/cluster/src/output.rs",
    "analyzer/console/src/output",
    "recorder/cli/src/",
    "recorder/session/src/guard.rs",
];

/// The crates that a query runs in. They never write a capture.
const READERS: [&str; 3] = ["stallmap-schema", "stallmap-tables", "stallmap-engine"];

/// One crate: its folder, its dependencies within the workspace, its source files without tests.
struct WorkspaceCrate {
    folder: String,
    dependencies: BTreeSet<String>,
    files: BTreeMap<String, String>,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The crates of the workspace by name.
fn crates() -> BTreeMap<String, WorkspaceCrate> {
    let root = root();
    let mut found = BTreeMap::new();
    for part in ["schema", "schema/*", "analyzer/*", "recorder/*"] {
        let folders: Vec<PathBuf> = match part.strip_suffix("/*") {
            None => vec![root.join(part)],
            Some(parent) => {
                fs::read_dir(root.join(parent)).unwrap().map(|entry| entry.unwrap().path()).collect()
            }
        };
        for folder in folders {
            let Ok(manifest) = fs::read_to_string(folder.join("Cargo.toml")) else { continue };
            let name = manifest.lines().find_map(|line| line.strip_prefix("name = ")).unwrap();
            let files = sources(&folder.join("src"), &root);
            let folder = relative(&folder, &root);
            let name = name.trim_matches('"').to_owned();
            found.insert(name, WorkspaceCrate { folder, dependencies: dependencies(&manifest), files });
        }
    }
    found
}

/// The names below `[dependencies]`.
fn dependencies(manifest: &str) -> BTreeSet<String> {
    let lines = manifest.lines().skip_while(|line| *line != "[dependencies]").skip(1);
    let names = lines.take_while(|line| !line.starts_with('[')).filter_map(|line| line.split('.').next());
    names.filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

/// The Rust files below a folder, each cut where its tests begin.
fn sources(folder: &Path, root: &Path) -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    let Ok(entries) = fs::read_dir(folder) else { return files };
    for entry in entries {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(sources(&path, root));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let name = relative(&path, root);
            if !name.ends_with("tests.rs") {
                let text = fs::read_to_string(&path).unwrap();
                let code = text.split("\n#[cfg(test)]\nmod tests {").next().unwrap().to_owned();
                files.insert(name, code);
            }
        }
    }
    files
}

fn relative(path: &Path, root: &Path) -> String {
    path.strip_prefix(root).unwrap().to_string_lossy().replace('\\', "/")
}

/// Lines of code that hold one of some words, as `file:line`.
fn lines_with<'a>(
    crates: &'a BTreeMap<String, WorkspaceCrate>,
    words: &'a [&str],
) -> impl Iterator<Item = String> + 'a {
    let files = crates.values().flat_map(|member| &member.files);
    files.flat_map(move |(name, text)| {
        let code = text.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//"));
        let hits = code.filter(move |(_, line)| words.iter().any(|word| line.contains(word)));
        hits.map(move |(number, _)| format!("{name}:{}", number + 1))
    })
}

#[test]
fn the_schema_knows_nobody_and_neither_half_knows_the_other() {
    let crates = crates();
    assert!(crates.len() > 15, "the workspace was not found");
    for (name, member) in &crates {
        for dependency in &member.dependencies {
            let Some(other) = crates.get(dependency) else { continue };
            let half = |folder: &str| folder.split('/').next().unwrap().to_owned();
            let (from, to) = (half(&member.folder), half(&other.folder));
            assert!(to == "schema" || from == to, "{name} depends on {dependency}");
            let is_base = member.folder == "schema" || member.folder == "schema/sass";
            assert!(!is_base, "{name} depends on {dependency}");
            assert!(dependency != "stallmap-testkit", "{name} needs the test kit outside of tests");
        }
    }
}

#[test]
fn reading_needs_no_writer() {
    let crates = crates();
    for name in READERS {
        let dependencies = &crates[name].dependencies;
        assert!(!dependencies.contains("stallmap-write"), "{name} depends on the writer of captures");
    }
}

#[test]
fn other_tools_files_are_read_without_the_engine() {
    let own = ["stallmap-hlo", "stallmap-sass", "stallmap-schema"];
    for dependency in &crates()["stallmap-readers"].dependencies {
        let is_own = own.contains(&dependency.as_str());
        assert!(is_own || !dependency.starts_with("stallmap"), "the readers depend on {dependency}");
        assert!(!dependency.starts_with("datafusion"), "the readers depend on {dependency}");
    }
}

#[test]
fn only_the_recorder_knows_cuda_and_one_crate_binds_it() {
    for (name, member) in crates() {
        let binds = ["cudarc", "libloading"].iter().any(|library| member.dependencies.contains(*library));
        assert!(!binds || member.folder == "recorder/sys", "{name} binds CUDA");
    }
}

#[test]
fn only_output_prints() {
    let words = ["println!(", "eprint", "print!(", "io::stdout()", "io::stderr()", "dbg!("];
    let crates = crates();
    // A terminal's properties are asked in the editor; nothing is written there.
    let allowed = |place: &str| {
        OUTPUT.iter().any(|prefix| place.starts_with(prefix))
            || place.starts_with("analyzer/cli/src/shell/editor.rs")
    };
    let wrong: Vec<String> = lines_with(&crates, &words).filter(|place| !allowed(place)).collect();
    assert!(wrong.is_empty(), "these lines name stdout or stderr: {wrong:#?}");
}

#[test]
fn unsafe_code_stays_in_its_rooms() {
    let words = ["unsafe {", "unsafe fn", "unsafe impl", "unsafe extern", "unsafe(no_mangle)"];
    let crates = crates();
    let allowed = |place: &str| UNSAFE.iter().any(|prefix| place.starts_with(prefix));
    let wrong: Vec<String> = lines_with(&crates, &words).filter(|place| !allowed(place)).collect();
    assert!(wrong.is_empty(), "these lines hold unsafe code: {wrong:#?}");
}

#[test]
fn crates_are_few_and_stand_in_few_floors() {
    let crates = crates();
    assert!(crates.len() <= MAX_CRATES, "{} crates: cut them by idea", crates.len());
    let (name, floors) =
        crates.keys().map(|name| (name, floors(&crates, name))).max_by_key(|(_, floors)| *floors).unwrap();
    assert!(floors <= MAX_FLOORS, "{name} stands {floors} floors high");
}

/// The length of the longest chain of dependencies below a crate, with the crate itself.
fn floors(crates: &BTreeMap<String, WorkspaceCrate>, name: &str) -> usize {
    let below = crates.get(name).map(|member| &member.dependencies);
    let own = below.into_iter().flatten().filter(|dependency| crates.contains_key(*dependency));
    1 + own.map(|dependency| floors(crates, dependency)).max().unwrap_or(0)
}

/// `scripts/test` skips them: rustdoc reads each crate with all of its dependencies to find that it has none.
#[test]
fn documentation_of_crates_has_no_code_that_rustdoc_would_run() {
    for (name, member) in crates() {
        for (file, text) in &member.files {
            let documentation = text.lines().map(str::trim_start).filter_map(|line| {
                line.strip_prefix("///").or_else(|| line.strip_prefix("//!")).map(str::trim_start)
            });
            let opening = documentation.filter(|line| line.starts_with("```")).step_by(2);
            let wrong: Vec<&str> = opening.filter(|fence| *fence != "```text").collect();
            assert!(wrong.is_empty(), "{name}: {file} opens a block of documentation without `text`");
        }
    }
}
