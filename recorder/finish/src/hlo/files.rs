//! The files in which the Python hook leaves programs: a line of facts, then the program as XLA serializes it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use stallmap_hlo::executable::XlaExecutable;
use stallmap_hlo::thunk::LaunchThunk;
use stallmap_schema::hash;
use stallmap_schema::id::{ModuleId, RunId};
use stallmap_schema::word::LossKind;

use crate::file;
use crate::loss::LossTotals;

/// Maximum bytes of a file.
const MAX_BYTES: u64 = 96 << 20;
/// Maximum bytes of all files of a process.
const MAX_TOTAL_BYTES: u64 = 1 << 30;
/// Maximum number of programs of a process.
const MAX_PROGRAMS: usize = 20_000;
/// Version of the facts.
const VERSION: u32 = 1;

/// The facts about a program that only its process has.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct ProgramFacts {
    version: u32,
    kind: String,
    pub(super) name: String,
    pub(super) begin_ns: i64,
    pub(super) end_ns: i64,
    /// Files as the module names them: normalized, and as Python names them.
    pub(super) files: BTreeMap<String, (String, String)>,
    /// Paths of the results in what the function returns.
    pub(super) results: Vec<String>,
    /// The stack of the call that compiled it, innermost first: file, original file, function, first line, line.
    pub(super) stack: Vec<(String, String, String, u32, u32)>,
}

/// One program.
#[derive(Debug, Default)]
pub(super) struct ProgramFile {
    pub(super) facts: ProgramFacts,
    /// Its cubins.
    pub(super) code: BTreeSet<ModuleId>,
    pub(super) executable: XlaExecutable,
}

impl ProgramFacts {
    /// True if the program was being compiled at a time.
    pub(super) fn is_compiling(&self, time_ns: i64) -> bool {
        (self.begin_ns..self.end_ns).contains(&time_ns)
    }
}

impl ProgramFile {
    fn read(path: &Path) -> Result<Self, String> {
        let bytes = file::read(path, MAX_BYTES).map_err(|error| error.to_string())?;
        let line = bytes.iter().position(|byte| *byte == b'\n').ok_or("it has no line of facts")?;
        let (facts, content) = bytes.split_at(line);
        let facts: ProgramFacts = serde_json::from_slice(facts).map_err(|error| error.to_string())?;
        if facts.version != VERSION {
            return Err(format!("its version is {}, and {VERSION} is known", facts.version));
        }
        let content = content.get(1..).unwrap_or(&[]);
        let executable = if facts.kind == "module" {
            XlaExecutable::from_module(content.to_vec())
        } else {
            XlaExecutable::read(content).ok_or("it holds no module")?
        };
        let mut code: BTreeSet<ModuleId> = executable.cubins().map(hash::module_id).collect();
        add_code(&executable.thunks(), &mut code);
        Ok(Self { facts, code, executable })
    }
}

fn add_code(thunks: &[LaunchThunk<'_>], code: &mut BTreeSet<ModuleId>) {
    for thunk in thunks {
        let cubin = thunk.kernel.as_ref().map_or(&[][..], |kernel| kernel.cubin);
        if !cubin.is_empty() {
            code.insert(hash::module_id(cubin));
        }
        add_code(&thunk.children, code);
    }
}

/// The programs of a process, in the order of compilation.
pub(super) fn read(
    folder: Option<&Path>,
    process_id: u32,
    run_id: RunId,
    losses: &mut LossTotals,
) -> Vec<ProgramFile> {
    let paths = folder.map(|folder| paths(folder, process_id)).unwrap_or_default();
    let beyond = paths.len().saturating_sub(MAX_PROGRAMS) as u64;
    losses.add(run_id, LossKind::Source, "more HLO programs than are read", beyond);
    let (mut programs, mut total) = (Vec::new(), 0);
    for path in paths.into_values().take(MAX_PROGRAMS) {
        total += path.metadata().map_or(0, |metadata| metadata.len());
        if total > MAX_TOTAL_BYTES {
            losses.add(run_id, LossKind::Source, "HLO programs are too large together", 1);
            continue;
        }
        match ProgramFile::read(&path) {
            Ok(program) => programs.push(program),
            Err(cause) => {
                let detail = losses.add(run_id, LossKind::Source, "HLO program cannot be read", 1);
                detail.get_or_insert(cause);
            }
        }
    }
    programs
}

/// The files of a process by their number.
fn paths(folder: &Path, process_id: u32) -> BTreeMap<u32, PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    let numbered = |entry: fs::DirEntry| {
        let name = entry.file_name().into_string().ok()?;
        let name = name.strip_prefix("hlo-")?.strip_suffix(".program")?;
        let (process, number) = name.split_once('-')?;
        (process.parse() == Ok(process_id)).then_some(())?;
        Some((number.parse().ok()?, entry.path()))
    };
    entries.filter_map(numbered).collect()
}
