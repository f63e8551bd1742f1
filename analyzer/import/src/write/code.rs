//! Modules and functions, with their cubins and source lines where the source has them.

use std::rc::Rc;

use stallmap_sass::cubin::{CodeSection, Cubin, CubinFunction};
use stallmap_sass::{demangle, observable};
use stallmap_schema::capture::bounds;
use stallmap_schema::capture::error::CaptureError;
use stallmap_schema::id::{FunctionId, ModuleId};
use stallmap_schema::tables::code::{Function, Module};
use stallmap_write::CaptureWriter;
use stallmap_write::source::FileLines;

use super::{RecordingWriter, names};

/// A module that is written.
struct WrittenModule<'a> {
    module_id: ModuleId,
    content_hash: &'a str,
    /// The identity of its code.
    identity: &'a Rc<str>,
    bytes: Option<&'a [u8]>,
    cubin: Option<Cubin>,
}

/// Writes them. A module without a cubin has the hash of a text.
pub(super) fn write(writing: &RecordingWriter<'_>, writer: &mut CaptureWriter) -> Result<(), CaptureError> {
    let modules = writing.names.modules.iter().map(|(identity, (module_id, content_hash))| {
        let bytes = writing.trace.cubins.get(identity).map(Vec::as_slice);
        let cubin = bytes.and_then(|bytes| Cubin::read(bytes).ok());
        WrittenModule { module_id: *module_id, content_hash, identity, bytes, cubin }
    });
    let mut modules: Vec<WrittenModule<'_>> = modules.collect();
    modules.sort_unstable_by_key(|module| module.module_id);
    let mut lines = FileLines::default();
    let mut rows = Vec::new();
    for module in &modules {
        let file = module.bytes.map(|bytes| writer.add_cubin(module.content_hash, bytes)).transpose()?;
        rows.push(Module {
            module_id: module.module_id,
            content_hash: module.content_hash.to_owned(),
            cubin_bytes: module.bytes.map_or(0, |bytes| bytes.len() as u64),
            cupti_crc: None,
            sm: module.cubin.as_ref().map(|cubin| cubin.sm.0),
            file,
            zeroed_bytes: 0,
        });
        if let Some((cubin, bytes)) = module.cubin.as_ref().zip(module.bytes) {
            let is_used = |code: &CubinFunction| {
                let key = (Rc::from(code.name.as_str()), module.identity.clone());
                writing.names.functions.contains_key(&key)
            };
            lines.add_code(cubin, bytes, is_used);
        }
    }
    writer.append_rows(rows)?;
    let mut functions: Vec<(FunctionId, &names::SourceFunction)> =
        writing.names.functions.iter().map(|(code, id)| (*id, code)).collect();
    functions.sort_unstable();
    writer.append_rows(functions.into_iter().filter_map(|(function_id, (name, identity))| {
        let module = modules.iter().find(|module| module.identity == identity)?;
        Some(function(function_id, name, module))
    }))?;
    let text = |file: &str| Some(writing.trace.sources.get(file)?.lines().map(str::to_owned).collect());
    let mut rows = lines.rows_of(text);
    rows.retain(|row| row.file.len() <= bounds::TEXT_BYTES);
    writer.append_rows(rows)
}

fn function(function_id: FunctionId, name: &str, module: &WrittenModule<'_>) -> Function {
    let found = module.cubin.as_ref().and_then(|cubin| {
        let of = |section: &'_ CodeSection| section.functions.iter().position(|code| code.name == name);
        cubin.sections.iter().find_map(|section| Some((section, section.functions.get(of(section)?)?)))
    });
    let counts = found.zip(module.cubin.as_ref()).and_then(|((section, code), cubin)| {
        let begin = section.bytes.start.checked_add(usize::try_from(code.offset).ok()?)?;
        let own = module.bytes?.get(section.bytes.clone())?.get(begin - section.bytes.start..)?;
        Some(observable::count_memory(own.get(..usize::try_from(code.bytes).ok()?)?, cubin.sm))
    });
    let code = found.map(|(_, code)| code);
    Function {
        function_id,
        module_id: module.module_id,
        name: name.to_owned(),
        demangled_name: Some(demangle(name))
            .filter(|text| text.len() <= bounds::TEXT_BYTES)
            .unwrap_or_else(|| name.to_owned()),
        is_kernel: code.is_none_or(|code| code.is_kernel),
        code_bytes: code.map(|code| u64::from(code.symbol_bytes)),
        memory_instruction_count: counts.map(|counts| counts.all),
        uncovered_instruction_count: counts.map(observable::MemoryInstructions::uncovered),
    }
}
