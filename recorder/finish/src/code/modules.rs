//! The modules of all runs: facts about their functions, cubins for the capture.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rayon::prelude::*;
use stallmap_sass::cubin::{CodeSection, Cubin, CubinFunction, KernelCallees};
use stallmap_sass::{demangle, observable};
use stallmap_schema::capture::bounds;
use stallmap_schema::capture::reader::{CaptureReader, MAX_CUBIN_BYTES};
use stallmap_schema::hash;
use stallmap_schema::id::{FunctionId, ModuleId};
use stallmap_schema::tables::code::{Function, Module};
use stallmap_write::CaptureWriter;
use stallmap_write::source::FileLines;

use crate::error::FinishError;
use crate::file;

/// Every module of a recording.
#[derive(Debug, Default)]
pub(crate) struct RecordedModules {
    modules: BTreeMap<ModuleId, KnownModule>,
    functions: BTreeMap<FunctionId, NamedModule>,
}

#[derive(Debug)]
struct KnownModule {
    row: Module,
    source: CubinSource,
    cubin: Result<Cubin, String>,
}

/// Location of a cubin. Its bytes are read again when they are needed, because all of them together are many.
#[derive(Debug)]
enum CubinSource {
    /// Nowhere, or not as it should be.
    None,
    /// A file of the recording, as the program loaded it.
    File(PathBuf),
    /// An entry of a capture, where the code of unused kernels is zeroed.
    Capture(Arc<CaptureReader>),
}

#[derive(Clone, Debug)]
struct NamedModule {
    module_id: ModuleId,
    name: String,
    is_kernel: bool,
}

impl RecordedModules {
    /// Reads the cubins of a recording's folders. `rows` are the modules that the runs saw.
    pub(crate) fn read(folders: &[PathBuf], rows: impl IntoIterator<Item = Module>) -> Self {
        let files: BTreeMap<_, _> = folders.iter().flat_map(|folder| cubin_files(folder)).collect();
        let mut merged: BTreeMap<ModuleId, Module> = BTreeMap::new();
        for row in rows {
            let crc = row.cupti_crc;
            let known = merged.entry(row.module_id).or_insert(row);
            known.cupti_crc = known.cupti_crc.or(crc);
        }
        // A recording that was cut off may have the cubin and not the row.
        for (module_id, (content_hash, _)) in &files {
            merged.entry(*module_id).or_insert_with(|| bare_module(*module_id, content_hash));
        }
        let read = |(module_id, row): (ModuleId, Module)| {
            let path = files.get(&module_id).map(|(_, path)| path.clone());
            (module_id, KnownModule::read(row, path))
        };
        Self::from_modules(merged.into_par_iter().map(read).collect())
    }

    /// Modules as a capture has them.
    pub(crate) fn of_capture(reader: &Arc<CaptureReader>, rows: impl IntoIterator<Item = Module>) -> Self {
        let read = |row: Module| (row.module_id, KnownModule::of_capture(row, Arc::clone(reader)));
        Self::from_modules(rows.into_iter().map(read).collect())
    }

    /// Modules, with the functions that their cubins name.
    fn from_modules(modules: BTreeMap<ModuleId, KnownModule>) -> Self {
        let mut functions = BTreeMap::new();
        for (module_id, known) in &modules {
            for (_, code) in known.functions() {
                let named =
                    NamedModule { module_id: *module_id, name: code.name.clone(), is_kernel: code.is_kernel };
                functions.insert(hash::function_id(*module_id, &code.name), named);
            }
        }
        Self { modules, functions }
    }

    /// Adds a function that a run saw in a module, where the cubin does not name it.
    pub(crate) fn add_function(
        &mut self,
        function_id: FunctionId,
        module_id: ModuleId,
        name: &str,
        is_kernel: bool,
    ) {
        let named = || NamedModule { module_id, name: name.to_owned(), is_kernel };
        self.functions.entry(function_id).or_insert_with(named);
        self.modules.entry(module_id).or_insert_with(|| KnownModule::read(bare_module(module_id, ""), None));
    }

    /// True if anything is known of a function.
    pub(crate) fn knows(&self, function_id: FunctionId) -> bool {
        self.functions.contains_key(&function_id)
    }

    /// A function's name. Empty where it is not known.
    pub(crate) fn name(&self, function_id: FunctionId) -> &str {
        self.functions.get(&function_id).map_or("", |named| &named.name)
    }

    /// Modules whose cubin is missing or damaged, wholly or in part, each with its damage.
    pub(crate) fn damaged(&self) -> impl Iterator<Item = (&Module, &str)> {
        self.modules.values().filter_map(|known| Some((&known.row, known.damage()?)))
    }

    /// The other functions in a kernel's section: (first pc, pc behind the last, function).
    pub(crate) fn inner_functions(&self, module_id: ModuleId, kernel: &str) -> Vec<(u32, u32, FunctionId)> {
        let known = self.modules.get(&module_id);
        let Some((section, outer)) = known.and_then(|known| known.function(kernel)) else {
            return Vec::new();
        };
        let inner =
            section.functions.iter().filter(|code| code.offset > outer.offset && code.symbol_bytes > 0);
        let range = |code: &CubinFunction| {
            let first = code.offset - outer.offset;
            (first, first.saturating_add(code.symbol_bytes), hash::function_id(module_id, &code.name))
        };
        inner.map(range).collect()
    }

    /// The functions that the kernels of a module may execute, where its cubin is there and undamaged.
    pub(crate) fn callees(&self, module_id: ModuleId) -> Option<KernelCallees<'_>> {
        KernelCallees::new(self.modules.get(&module_id)?.cubin.as_ref().ok()?)
    }

    /// The module of a function.
    pub(crate) fn module_of(&self, function_id: FunctionId) -> Option<ModuleId> {
        self.functions.get(&function_id).map(|named| named.module_id)
    }

    /// Rows of `function` for those that launches, samples or accesses name.
    pub(crate) fn function_rows(&self, used: &BTreeSet<FunctionId>) -> Vec<Function> {
        let used: Vec<_> = used.iter().filter_map(|id| Some((*id, self.functions.get(id)?))).collect();
        let mut by_module: BTreeMap<ModuleId, Vec<(FunctionId, &NamedModule)>> = BTreeMap::new();
        for (function_id, named) in used {
            by_module.entry(named.module_id).or_default().push((function_id, named));
        }
        let mut rows: Vec<Function> = by_module
            .into_par_iter()
            .flat_map_iter(|(module_id, functions)| {
                let known = self.modules.get(&module_id);
                let bytes = known.and_then(KnownModule::bytes);
                functions
                    .into_iter()
                    .map(move |(id, named)| function_row(id, named, known, bytes.as_deref()))
                    .collect::<Vec<_>>()
            })
            .collect();
        rows.sort_unstable_by_key(|row| row.function_id);
        rows
    }

    /// Puts the cubins into the capture, the code of unused kernels zeroed. Rows of `module`. `lines` gets the lines of
    /// used code.
    pub(crate) fn store(
        &self,
        used: &BTreeSet<FunctionId>,
        writer: &mut CaptureWriter,
        lines: &mut FileLines,
    ) -> Result<Vec<Module>, FinishError> {
        let mut rows = Vec::new();
        for (module_id, known) in &self.modules {
            let mut row = Module { file: None, zeroed_bytes: 0, ..known.row.clone() };
            if let (Ok(cubin), Some(mut bytes)) = (&known.cubin, known.bytes()) {
                row.sm = Some(cubin.sm.0);
                let is_used =
                    |code: &CubinFunction| used.contains(&hash::function_id(*module_id, &code.name));
                lines.add_code(cubin, &bytes, is_used);
                row.zeroed_bytes = zero_unused(&cubin.sections, is_used, &mut bytes);
                row.file = Some(writer.add_cubin(&row.content_hash, &bytes)?);
            } else if let Some(bytes) = known.bytes() {
                row.file = Some(writer.add_cubin(&row.content_hash, &bytes)?);
            }
            rows.push(row);
        }
        Ok(rows)
    }
}

impl KnownModule {
    fn read(mut row: Module, path: Option<PathBuf>) -> Self {
        let cubin = match path.as_deref().map(|path| file::read(path, MAX_CUBIN_BYTES)) {
            None => Err("its cubin was not recorded".to_owned()),
            Some(Err(cause)) => Err(cause.to_string()),
            Some(Ok(bytes)) if blake3::hash(&bytes).to_hex().as_str() != row.content_hash => {
                Err("its cubin is not what its name says".to_owned())
            }
            Some(Ok(bytes)) => {
                row.cubin_bytes = bytes.len() as u64;
                Cubin::read(&bytes).map_err(|cause| cause.to_string())
            }
        };
        let path = path.filter(|_| cubin.is_ok() || row.cubin_bytes > 0);
        Self { row, source: path.map_or(CubinSource::None, CubinSource::File), cubin }
    }

    fn of_capture(row: Module, reader: Arc<CaptureReader>) -> Self {
        let cubin = match &row.file {
            None => Err("the capture does not hold it".to_owned()),
            Some(_) => reader
                .cubin(&row.content_hash)
                .map_err(|cause| cause.to_string())
                .and_then(|bytes| Cubin::read(&bytes).map_err(|cause| cause.to_string())),
        };
        Self { row, source: CubinSource::Capture(reader), cubin }
    }

    /// The damage of its cubin, if any.
    fn damage(&self) -> Option<&str> {
        match &self.cubin {
            Ok(cubin) => cubin.damage.first().map(String::as_str),
            Err(cause) => Some(cause),
        }
    }

    /// Its functions, each with the section that it stands in.
    fn functions(&self) -> impl Iterator<Item = (&CodeSection, &CubinFunction)> {
        let sections = self.cubin.as_ref().map_or(&[][..], |cubin| &cubin.sections);
        sections.iter().flat_map(|section| section.functions.iter().map(move |code| (section, code)))
    }

    fn function(&self, name: &str) -> Option<(&CodeSection, &CubinFunction)> {
        self.functions().find(|(_, code)| code.name == name)
    }

    /// The cubin's bytes, if they agree with the row.
    fn bytes(&self) -> Option<Vec<u8>> {
        match &self.source {
            CubinSource::None => None,
            CubinSource::File(path) => {
                let bytes = file::read(path, MAX_CUBIN_BYTES).ok()?;
                (blake3::hash(&bytes).to_hex().as_str() == self.row.content_hash).then_some(bytes)
            }
            CubinSource::Capture(reader) => reader.cubin(&self.row.content_hash).ok(),
        }
    }
}

/// Zeroes the sections of kernels of which nothing is used, and every section where nothing of the module is: device
/// functions may be called by any kernel. How many bytes that is.
fn zero_unused(sections: &[CodeSection], is_used: impl Fn(&CubinFunction) -> bool, bytes: &mut [u8]) -> u64 {
    let has_use = sections.iter().any(|section| section.functions.iter().any(&is_used));
    let is_unused = |section: &&CodeSection| {
        let has_kernel = section.functions.iter().any(|code| code.is_kernel);
        (has_kernel || !has_use) && !section.functions.iter().any(&is_used)
    };
    let mut zeroed = 0;
    for section in sections.iter().filter(is_unused) {
        if let Some(code) = bytes.get_mut(section.bytes.clone()) {
            code.fill(0);
            zeroed += code.len() as u64;
        }
    }
    zeroed
}

fn function_row(
    function_id: FunctionId,
    named: &NamedModule,
    known: Option<&KnownModule>,
    bytes: Option<&[u8]>,
) -> Function {
    let found = known.and_then(|known| known.function(&named.name));
    let sm = known.and_then(|known| known.cubin.as_ref().ok()).map(|cubin| cubin.sm);
    let counts = found.zip(sm).zip(bytes).and_then(|(((section, code), sm), bytes)| {
        // What stands in the kernel's section behind it is counted with the function that it is.
        let own =
            bytes.get(section.bytes.clone())?.get(code.offset as usize..)?.get(..code.bytes as usize)?;
        Some(observable::count_memory(own, sm))
    });
    let code = found.map(|(_, code)| code);
    Function {
        function_id,
        module_id: named.module_id,
        name: named.name.clone(),
        demangled_name: Some(demangle(&named.name))
            .filter(|name| name.len() <= bounds::TEXT_BYTES)
            .unwrap_or_else(|| named.name.clone()),
        is_kernel: code.map_or(named.is_kernel, |code| code.is_kernel),
        code_bytes: code.map(|code| u64::from(code.symbol_bytes)),
        memory_instruction_count: counts.map(|counts| counts.all),
        uncovered_instruction_count: counts.map(observable::MemoryInstructions::uncovered),
    }
}

fn bare_module(module_id: ModuleId, content_hash: &str) -> Module {
    Module { module_id, content_hash: content_hash.to_owned(), ..Module::default() }
}

/// The recording's cubins: by the module that their name's hash is, the hash and the file.
fn cubin_files(folder: &Path) -> BTreeMap<ModuleId, (String, PathBuf)> {
    let entries = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    let named = |entry: fs::DirEntry| {
        let name = entry.file_name().into_string().ok()?;
        let content_hash = name.strip_suffix(".cubin")?.to_owned();
        let hash = blake3::Hash::from_hex(&content_hash).ok()?;
        let first = hash.as_bytes().first_chunk()?;
        Some((ModuleId(u64::from_le_bytes(*first)), (content_hash, entry.path())))
    };
    entries.filter_map(named).collect()
}
