//! Validity of a capture with its machine code: the samples of a launch are of functions that its kernel can execute.

use std::collections::{BTreeMap, BTreeSet};

use stallmap_sass::cubin::{Cubin, KernelCallees};
use stallmap_schema::capture::reader::CaptureReader;
use stallmap_schema::cell::ColumnCell;
use stallmap_schema::check::{CaptureRule, Violation, ViolationList, check_with};
use stallmap_schema::id::{FunctionId, ModuleId};
use stallmap_schema::table::TableRow;
use stallmap_schema::tables::code::{Function, Module};
use stallmap_schema::tables::launch::Launch;
use stallmap_schema::tables::sample::PcSample;

/// Everything that is wrong with a capture. Empty where nothing is.
pub fn check(reader: &CaptureReader) -> Vec<Violation> {
    check_with(reader, check_execution)
}

fn check_execution(reader: &CaptureReader, found: &mut ViolationList) {
    let sampled = sampled(reader);
    let kernels: BTreeSet<FunctionId> = sampled.keys().map(|(kernel, _)| *kernel).collect();
    let functions = functions(reader, &kernels, found);
    let modules: BTreeSet<ModuleId> = functions.values().map(|(module_id, _)| *module_id).collect();
    for module in stored(reader, &modules, found) {
        let own = functions.iter().filter(|(_, (module_id, _))| *module_id == module.module_id);
        check_module(
            reader,
            &module,
            own.map(|(kernel, (_, name))| (*kernel, name.as_str())),
            &sampled,
            found,
        );
    }
}

/// The launches of kernels whose samples are of other functions: the first of each, by kernel and function.
fn sampled(reader: &CaptureReader) -> BTreeMap<(FunctionId, FunctionId), u64> {
    let mut kernels: BTreeMap<u64, FunctionId> = BTreeMap::new();
    pairs(reader, Launch::TABLE.name, |kernel_id, function_id| {
        kernels.insert(kernel_id, function_id);
    });
    let mut sampled = BTreeMap::new();
    let mut last = None;
    pairs(reader, PcSample::TABLE.name, |kernel_id, function_id| {
        if last.replace((kernel_id, function_id)) == Some((kernel_id, function_id)) {
            return;
        }
        if let Some(kernel) = kernels.get(&kernel_id).filter(|kernel| **kernel != function_id) {
            sampled.entry((*kernel, function_id)).or_insert(kernel_id);
        }
    });
    sampled
}

/// Launch and function of each row of a table.
fn pairs(reader: &CaptureReader, table: &str, mut each: impl FnMut(u64, FunctionId)) {
    let columns = ["kernel_id", "function_id"];
    let batches = reader.read_columns(table, &columns).into_iter().flatten();
    for batch in batches.map_while(Result::ok) {
        let [Some(kernels), Some(functions)] = columns.map(|name| batch.column_by_name(name)) else {
            continue;
        };
        for row in 0..batch.num_rows() {
            if let Some((kernel, function)) = u64::read(kernels, row).zip(u64::read(functions, row)) {
                each(kernel, FunctionId(function));
            }
        }
    }
}

/// The module and the name of some functions.
fn functions(
    reader: &CaptureReader,
    wanted: &BTreeSet<FunctionId>,
    found: &mut ViolationList,
) -> BTreeMap<FunctionId, (ModuleId, String)> {
    let mut functions = BTreeMap::new();
    let add = |row: Function| {
        if wanted.contains(&row.function_id) {
            functions.insert(row.function_id, (row.module_id, row.name));
        }
    };
    if let Err(error) = reader.for_each_row(usize::MAX, add) {
        found.unreadable(&error);
    }
    functions
}

/// The rows of some modules whose cubins the capture holds.
fn stored(reader: &CaptureReader, wanted: &BTreeSet<ModuleId>, found: &mut ViolationList) -> Vec<Module> {
    let mut modules = Vec::new();
    let add = |row: Module| {
        if row.file.is_some() && wanted.contains(&row.module_id) {
            modules.push(row);
        }
    };
    if let Err(error) = reader.for_each_row(usize::MAX, add) {
        found.unreadable(&error);
    }
    modules
}

/// Checks the kernels of one module. One whose code is not known may execute everything.
fn check_module<'a>(
    reader: &CaptureReader,
    module: &Module,
    kernels: impl Iterator<Item = (FunctionId, &'a str)>,
    sampled: &BTreeMap<(FunctionId, FunctionId), u64>,
    found: &mut ViolationList,
) {
    let cubin = reader.cubin(&module.content_hash).ok().and_then(|bytes| Cubin::read(&bytes).ok());
    let Some(callees) = cubin.as_ref().and_then(KernelCallees::new) else { return };
    let id = |name: &str| stallmap_schema::hash::function_id(module.module_id, name);
    for (kernel, name) in kernels {
        let Some(executed) = callees.for_kernel(name) else { continue };
        let executed: BTreeSet<FunctionId> = executed.into_iter().map(id).collect();
        let of_kernel = sampled.range((kernel, FunctionId(0))..=(kernel, FunctionId(u64::MAX)));
        for ((_, function), launch) in of_kernel.filter(|((_, function), _)| !executed.contains(function)) {
            found.add(CaptureRule::Execution, || {
                format!(
                    "launch {launch} of `{name}` has samples of function {:016x}, which it cannot execute",
                    function.0
                )
            });
        }
    }
}
