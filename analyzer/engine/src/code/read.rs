//! The functions of a capture, and their sections in its cubins.
//!
//! A missing or damaged cubin affects only its own functions: they are returned with the reason.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rayon::prelude::*;
use stallmap_sass::cubin::{CodeSection, Cubin};
use stallmap_sass::line::LineTable;
use stallmap_sass::word::Sm;
use stallmap_schema::capture::error::CaptureError;
use stallmap_schema::capture::reader::CaptureReader;
use stallmap_schema::hash;
use stallmap_schema::id::{FunctionId, ModuleId};
use stallmap_schema::table::TableRow;
use stallmap_schema::tables::code::{Function, Module};

use super::section::{SectionFunction, SectionLines};

/// Maximum bytes of code of a capture's sections: their analysis takes up to two microseconds an instruction, and up to
/// twenty where the code is crafted.
const MAX_CODE_BYTES: u64 = 128 << 20;
/// Maximum bytes of code of a section, which is one kernel's: 262,144 instructions, whose analysis takes 600 MB.
const MAX_SECTION_BYTES: u64 = 4 << 20;

/// A section whose code is to be analyzed.
pub(super) struct FoundSection {
    pub(super) module_id: ModuleId,
    pub(super) sm: Sm,
    pub(super) section: CodeSection,
    pub(super) code: Vec<u8>,
    pub(super) functions: Vec<SectionFunction>,
    pub(super) lines: SectionLines,
}

/// Code sections of a capture.
#[derive(Default)]
pub(super) struct CaptureSections {
    pub(super) found: Vec<FoundSection>,
    /// Functions whose code is not there, with the reason.
    pub(super) missing: Vec<(FunctionId, String)>,
}

/// Reads the cubins of a capture's functions.
pub(super) fn read(reader: &CaptureReader) -> Result<CaptureSections, CaptureError> {
    let modules = rows::<Module>(reader)?;
    let modules: BTreeMap<ModuleId, Module> = modules.into_iter().map(|row| (row.module_id, row)).collect();
    let mut wanted: BTreeMap<ModuleId, Vec<Function>> = BTreeMap::new();
    for function in rows::<Function>(reader)? {
        wanted.entry(function.module_id).or_default().push(function);
    }
    let files = wanted.keys().filter_map(|module| modules.get(module)?.file.as_deref());
    reader.prefetch(files);
    let budget = AtomicU64::new(MAX_CODE_BYTES);
    let of_module = |bytes: &mut Vec<u8>, (module_id, functions): (ModuleId, Vec<Function>)| {
        let opened = open(reader, modules.get(&module_id), bytes);
        read_module(module_id, opened, &functions, &budget)
    };
    let parts: Vec<CaptureSections> = wanted.into_par_iter().map_init(Vec::new, of_module).collect();
    let mut sections = CaptureSections::default();
    for part in parts {
        sections.found.extend(part.found);
        sections.missing.extend(part.missing);
    }
    Ok(sections)
}

/// The rows of a table. None if the capture lacks it.
fn rows<R: TableRow>(reader: &CaptureReader) -> Result<Vec<R>, CaptureError> {
    match reader.read_rows() {
        Err(CaptureError::MissingTable { .. }) => Ok(Vec::new()),
        rows => rows,
    }
}

fn read_module(
    module_id: ModuleId,
    opened: Result<OpenedCubin<'_>, String>,
    functions: &[Function],
    budget: &AtomicU64,
) -> CaptureSections {
    let mut sections = CaptureSections::default();
    let OpenedCubin { bytes, cubin, lines } = match opened {
        Ok(opened) => opened,
        Err(reason) => {
            sections.missing.extend(functions.iter().map(|row| (row.function_id, reason.clone())));
            return sections;
        }
    };
    let wanted: BTreeSet<FunctionId> = functions.iter().map(|row| row.function_id).collect();
    let mut seen = BTreeSet::new();
    let (mut without_room, mut too_long) = (BTreeSet::new(), BTreeSet::new());
    for (index, section) in cubin.sections.into_iter().enumerate() {
        let functions = section_functions(&section, module_id, &wanted, &mut seen);
        let ids = || functions.iter().map(|function| function.function_id);
        let Some(code) = bytes.get(section.bytes.clone()).filter(|_| ids().any(|id| wanted.contains(&id)))
        else {
            continue;
        };
        let length = code.len() as u64;
        if length > MAX_SECTION_BYTES {
            too_long.extend(ids());
            continue;
        }
        let take = |left: u64| left.checked_sub(length);
        if budget.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_err() {
            without_room.extend(ids());
            continue;
        }
        let (code, lines) = (code.to_vec(), SectionLines::new(Arc::clone(&lines), index));
        sections.found.push(FoundSection { module_id, sm: cubin.sm, section, code, functions, lines });
    }
    let read: BTreeSet<FunctionId> = sections
        .found
        .iter()
        .flat_map(|found| &found.functions)
        .map(|function| function.function_id)
        .collect();
    for function_id in wanted.difference(&read) {
        let reason = if without_room.contains(function_id) {
            format!("the capture has more than {MAX_CODE_BYTES} bytes of code")
        } else if too_long.contains(function_id) {
            format!("its section has more than {MAX_SECTION_BYTES} bytes of code")
        } else {
            let damage = cubin.damage.first().map(|damage| format!(": {damage}")).unwrap_or_default();
            format!("its cubin does not hold it{damage}")
        };
        sections.missing.push((*function_id, reason));
    }
    sections
}

/// A cubin that was read.
struct OpenedCubin<'a> {
    bytes: &'a [u8],
    cubin: Cubin,
    lines: Arc<LineTable>,
}

/// A module's cubin, in a buffer.
fn open<'a>(
    reader: &CaptureReader,
    module: Option<&Module>,
    buffer: &'a mut Vec<u8>,
) -> Result<OpenedCubin<'a>, String> {
    let module = module.ok_or("the capture does not know its module")?;
    let file = module.file.as_ref().ok_or("the capture does not hold its cubin")?;
    let packed = reader.entry(file).map_err(|error| cause(&error))?;
    let listed = reader.manifest().entries().find(|(name, ..)| name == file);
    if listed.is_none_or(|(.., hash)| blake3::hash(&packed).to_hex().as_str() != hash) {
        return Err("its cubin has another hash than the manifest".to_owned());
    }
    reader.read_cubin(&module.content_hash, buffer).map_err(|error| cause(&error))?;
    let bytes = buffer.as_slice();
    let cubin = Cubin::read(bytes).map_err(|error| format!("its cubin cannot be read: {error}"))?;
    if !cubin.sm.is_known() {
        return Err(format!("its architecture, sm_{}, is not known", cubin.sm.0));
    }
    // Lines are optional: damaged ones are null.
    let lines = LineTable::read(bytes, &cubin).unwrap_or_default();
    Ok(OpenedCubin { bytes, cubin, lines: Arc::new(lines) })
}

/// A reason without names of files: equal ones are counted together.
fn cause(error: &CaptureError) -> String {
    match error {
        CaptureError::MissingEntry { .. } => "the capture does not hold its cubin".to_owned(),
        CaptureError::Corrupt { cause, .. } => format!("its cubin is damaged: {cause}"),
        other => other.to_string(),
    }
}

/// The functions of a section. If several share a location, the requested one counts. A repeated name is skipped.
fn section_functions(
    section: &CodeSection,
    module_id: ModuleId,
    wanted: &BTreeSet<FunctionId>,
    seen: &mut BTreeSet<FunctionId>,
) -> Vec<SectionFunction> {
    let functions = section.functions.iter().map(|function| SectionFunction {
        function_id: hash::function_id(module_id, &function.name),
        name: function.name.clone(),
        offset: function.offset,
        bytes: function.bytes,
        is_kernel: function.is_kernel,
    });
    let mut functions: Vec<SectionFunction> =
        functions.filter(|function| seen.insert(function.function_id)).collect();
    functions.sort_by_key(|function| (function.offset, !wanted.contains(&function.function_id)));
    functions.dedup_by_key(|function| function.offset);
    functions
}
