//! References between tables, and from modules to their cubins.

use std::collections::{BTreeMap, HashSet};

use arrow::array::Array;
use arrow::datatypes::DataType;

use crate::capture::reader::CaptureReader;
use crate::cell::ColumnCell;
use crate::check::{CaptureRule, ViolationList};
use crate::table::{ColumnDef, TableDef, TableRow};
use crate::tables;
use crate::tables::code::Module;

type ReferencedColumn = (&'static str, &'static str);

pub(super) fn check(reader: &CaptureReader, found: &mut ViolationList) {
    let mut targets: BTreeMap<ReferencedColumn, HashSet<u64>> = BTreeMap::new();
    for table in tables::ALL {
        let columns: Vec<_> = table.columns.iter().filter(|column| column.reference.is_some()).collect();
        for target in columns.iter().filter_map(|column| column.reference) {
            targets.entry(target).or_insert_with(|| values(reader, target));
        }
        check_table(reader, table, &columns, &targets, found);
    }
    check_cubins(reader, found);
}

/// Every value of a column. A table that cannot be read has been reported with its schema.
fn values(reader: &CaptureReader, (table, column): ReferencedColumn) -> HashSet<u64> {
    let mut values = HashSet::new();
    for batch in reader.read_columns(table, &[column]).into_iter().flatten().map_while(Result::ok) {
        if let Some(array) = batch.column_by_name(column) {
            values.extend((0..array.len()).filter_map(|row| number(array, row)));
        }
    }
    values
}

fn check_table(
    reader: &CaptureReader,
    table: &TableDef,
    columns: &[&ColumnDef],
    targets: &BTreeMap<ReferencedColumn, HashSet<u64>>,
    found: &mut ViolationList,
) {
    let names: Vec<_> = columns.iter().map(|column| column.name).collect();
    let batches = reader.read_columns(table.name, &names).into_iter().flatten().map_while(Result::ok);
    for batch in batches.filter(|_| !columns.is_empty()) {
        for column in columns {
            let target = column.reference.and_then(|target| Some((target, targets.get(&target)?)));
            if let (Some(array), Some((target, known))) = (batch.column_by_name(column.name), target) {
                check_column(array, (table.name, column.name), target, known, found);
            }
        }
    }
}

fn check_column(
    array: &dyn Array,
    from: ReferencedColumn,
    to: ReferencedColumn,
    known: &HashSet<u64>,
    found: &mut ViolationList,
) {
    let mut last = None;
    for value in (0..array.len()).filter_map(|row| number(array, row)) {
        // Sorted tables repeat a value over many rows.
        if last.replace(value) != Some(value) && !known.contains(&value) {
            found.add(CaptureRule::Reference, || {
                format!("`{}.{}` refers to {value}, which `{}.{}` does not hold", from.0, from.1, to.0, to.1)
            });
        }
    }
}

/// An identifier, whatever its width.
fn number(array: &dyn Array, row: usize) -> Option<u64> {
    match array.data_type() {
        DataType::UInt32 => u32::read(array, row).map(u64::from),
        _ => u64::read(array, row),
    }
}

fn check_cubins(reader: &CaptureReader, found: &mut ViolationList) {
    let mut seen = HashSet::new();
    let check_module = |module: Module| {
        let Some(file) = module.file else { return };
        // Each cubin is unpacked once, however many rows name it.
        if !seen.insert((file.clone(), module.content_hash.clone())) {
            return;
        }
        let opened = match reader.entry_bytes(&file) {
            Ok(_) => reader.cubin(&module.content_hash).map(drop),
            Err(error) => Err(error),
        };
        if let Err(error) = opened {
            found.add(CaptureRule::Reference, || format!("`{}.file` `{file}`: {error}", Module::TABLE.name));
        }
    };
    if let Err(error) = reader.for_each_row(usize::MAX, check_module) {
        found.unreadable(&error);
    }
}
