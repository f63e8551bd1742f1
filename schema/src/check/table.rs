//! Checks of one table: schema, rows, order, keys, lifetimes.

use std::collections::BTreeSet;

use arrow::array::{Array as _, AsArray as _, RecordBatch};
use arrow::datatypes::{Schema, UInt64Type};
use arrow::row::{OwnedRow, RowConverter, Rows, SortField};

use crate::capture::reader::CaptureReader;
use crate::cell::ColumnCell;
use crate::check::chain::{OpParents, TensorBases};
use crate::check::{CaptureRule, ViolationList};
use crate::table::{TableDef, TableRow as _};
use crate::tables;
use crate::tables::memory::DeviceAllocation;
use crate::tables::tensor::Storage;

/// Violations of order and of keys in a table after which the rest of it is not read.
const MAX_VIOLATIONS: usize = 1_000;

/// Checks a table. False if it was not read to its end.
pub(super) fn check(reader: &CaptureReader, table: &TableDef, found: &mut ViolationList) -> bool {
    let batches = match reader.read_table(table.name) {
        Ok(batches) => batches,
        Err(error) => {
            found.unreadable(&error);
            return false;
        }
    };
    if !check_schema(table, batches.schema(), found) {
        return false;
    }
    let (mut order, mut chains) = (RowOrder::new(table), TensorBases::default());
    let mut parents = OpParents::default();
    let before = found.count(CaptureRule::Order) + found.count(CaptureRule::Key);
    let mut rows = 0;
    for batch in batches {
        let batch = match batch {
            Ok(batch) => batch,
            Err(error) => {
                found.unreadable(&error);
                return false;
            }
        };
        check_nulls(table, &batch, rows, found);
        check_words(table, &batch, rows, found);
        check_times(table, &batch, rows, found);
        check_ends(table, &batch, rows, found);
        rows += batch.num_rows() as u64;
        check_lives(table, &batch, found);
        chains.add(table, &batch);
        parents.add(table, &batch);
        if let Some(order) = &mut order {
            order.check(table, &batch, found);
        }
        if found.count(CaptureRule::Order) + found.count(CaptureRule::Key) > before + MAX_VIOLATIONS {
            found.add(CaptureRule::Unchecked, || format!("rows of table `{}` after row {rows}", table.name));
            return false;
        }
    }
    if let Some(violation) = chains.violation() {
        found.add(CaptureRule::Reference, || violation);
    }
    parents.list(found);
    let stated = reader.tables().iter().find(|entry| entry.name == table.name).map(|entry| entry.rows);
    if stated != Some(rows) {
        let stated = stated.unwrap_or(0);
        found.add(CaptureRule::Schema, || {
            format!("table `{}` has {rows} rows, but the manifest states {stated}", table.name)
        });
    }
    true
}

/// Keys without repetition and in order, of a table's key and order columns and [`crate::check::chained`] ones: what every
/// query takes for granted. An error is the first violation.
pub fn check_keys<E: From<String>>(
    table: &TableDef,
    batches: impl Iterator<Item = Result<RecordBatch, E>>,
) -> Result<(), E> {
    let Some(mut order) = RowOrder::new(table) else { return Ok(()) };
    let (mut found, mut chains) = (ViolationList::default(), TensorBases::default());
    for batch in batches {
        let batch = batch?;
        chains.add(table, &batch);
        order.check(table, &batch, &mut found);
        if let Some(violation) = std::mem::take(&mut found).finish().into_iter().next() {
            return Err(violation.what.into());
        }
    }
    chains.violation().map_or(Ok(()), |violation| Err(violation.into()))
}

/// Values that a table must have.
fn check_nulls(table: &TableDef, batch: &RecordBatch, first_row: u64, found: &mut ViolationList) {
    for column in table.columns.iter().filter(|column| !column.nullable) {
        let Some(array) = batch.column_by_name(column.name).filter(|array| array.null_count() > 0) else {
            continue;
        };
        for row in (0..array.len()).filter(|row| array.is_null(*row)) {
            let row = first_row + row as u64;
            found.add(CaptureRule::Schema, || {
                format!("row {row} of table `{}`: `{}` is null", table.name, column.name)
            });
        }
    }
}

/// Enums with values that they have. A reader of rows refuses others.
fn check_words(table: &TableDef, batch: &RecordBatch, first_row: u64, found: &mut ViolationList) {
    for column in table.columns {
        let Some(known) = (column.words)() else { continue };
        let Some(array) = batch.column_by_name(column.name).and_then(|array| array.as_any_dictionary_opt())
        else {
            continue;
        };
        let Some(values) = array.values().as_string_opt::<i32>() else { continue };
        let unknown = |row: &usize| values.is_valid(*row) && !known.contains(&values.value(*row));
        let unknown: BTreeSet<usize> = (0..values.len()).filter(unknown).collect();
        if unknown.is_empty() {
            continue;
        }
        // A file may list values that no row has.
        let keys = array.normalized_keys();
        let used =
            keys.iter().enumerate().find(|(row, key)| array.keys().is_valid(*row) && unknown.contains(key));
        if let Some((row, key)) = used {
            let row = first_row + row as u64;
            found.add(CaptureRule::Schema, || {
                format!(
                    "row {row} of table `{}`: `{}` has the unknown value `{}`",
                    table.name,
                    column.name,
                    values.value(*key)
                )
            });
        }
    }
}

fn check_schema(table: &TableDef, schema: &Schema, found: &mut ViolationList) -> bool {
    let mut complete = true;
    for column in table.columns {
        let wanted = (column.data_type)();
        let problem = match schema.field_with_name(column.name) {
            Err(_) if tables::is_added_column(table.name, column.name) => continue,
            Err(_) => "is missing".to_owned(),
            Ok(field) if *field.data_type() != wanted => {
                format!("has type {} instead of {wanted}", field.data_type())
            }
            Ok(_) => continue,
        };
        complete = false;
        found.add(CaptureRule::Schema, || {
            format!("column `{}` of table `{}` {problem}", column.name, table.name)
        });
    }
    complete
}

/// Columns of times, of which the second does not come before the first.
const TIMES: [[&str; 2]; 2] = [["begin_ns", "end_ns"], ["call_begin_ns", "call_end_ns"]];

/// Times that end before they begin. What is unfinished has no end.
fn check_times(table: &TableDef, batch: &RecordBatch, first_row: u64, found: &mut ViolationList) {
    for [begins, ends] in TIMES {
        let column = |name| batch.column_by_name(name);
        let Some((begins, ends)) = column(begins).zip(column(ends)) else { continue };
        for row in 0..batch.num_rows() {
            if let (Some(begin), Some(end)) = (i64::read(begins, row), i64::read(ends, row))
                && end < begin
            {
                let (name, row) = (table.name, first_row + row as u64);
                found.add(CaptureRule::Life, || {
                    format!("row {row} of table `{name}` ends at {end}, before it begins at {begin}")
                });
            }
        }
    }
}

/// Memory that does not end among the addresses of 64 bits. Views add addresses and sizes.
fn check_ends(table: &TableDef, batch: &RecordBatch, first_row: u64, found: &mut ViolationList) {
    if ![Storage::TABLE.name, DeviceAllocation::TABLE.name].contains(&table.name) {
        return;
    }
    let column = |name| batch.column_by_name(name)?.as_primitive_opt::<UInt64Type>();
    let Some((addresses, sizes)) = column("address").zip(column("size_bytes")) else { return };
    for (row, (address, size)) in addresses.iter().zip(sizes).enumerate() {
        if let Some((address, size)) = address.zip(size)
            && address.checked_add(size).is_none()
        {
            let (name, row) = (table.name, first_row + row as u64);
            found.add(CaptureRule::Schema, || {
                format!("row {row} of table `{name}`: {size} bytes from address {address} on end beyond 2^64")
            });
        }
    }
}

fn check_lives(table: &TableDef, batch: &RecordBatch, found: &mut ViolationList) {
    let column = |name| batch.column_by_name(name);
    if let (Some(begin), Some(end)) = (column("alloc_ns"), column("free_ns")) {
        for row in 0..batch.num_rows() {
            let times = (i64::read(begin, row), i64::read(end, row));
            if let (Some(begin), Some(end)) = times
                && end < begin
            {
                found.add(CaptureRule::Life, || format!("`{}`: freed at {end}, before {begin}", table.name));
            }
        }
    }
    if let (Some(begin), Some(end)) = (column("alloc_ordinal"), column("free_ordinal")) {
        for row in 0..batch.num_rows() {
            let ordinals = (u64::read(begin, row), u64::read(end, row));
            if let (Some(begin), Some(end)) = ordinals
                && end < begin
            {
                let name = table.name;
                found.add(CaptureRule::Life, || {
                    format!("`{name}`: freed at launch {end}, before launch {begin}")
                });
            }
        }
    }
}

/// Compares each row with the one before: order, and keys. Rows with one key stand in one group of rows that are
/// equal in the order's columns, because those are part of every key. Most groups have one row, and cost nothing.
struct RowOrder {
    sort: RowConverter,
    key: RowConverter,
    /// The order's columns and the key of the row before the batch.
    last: Option<(OwnedRow, OwnedRow)>,
    /// Keys of the group so far, where it has more than one row.
    group: BTreeSet<OwnedRow>,
}

impl RowOrder {
    fn new(table: &TableDef) -> Option<Self> {
        let converter = |columns: &[&str]| {
            let field = |name: &&str| table.columns.iter().find(|column| column.name == *name);
            let fields = columns.iter().filter_map(field).map(|column| SortField::new((column.data_type)()));
            RowConverter::new(fields.collect()).ok()
        };
        let (sort, key) = (converter(table.sort)?, converter(table.key)?);
        (!table.sort.is_empty()).then_some(Self { sort, key, last: None, group: BTreeSet::new() })
    }

    fn check(&mut self, table: &TableDef, batch: &RecordBatch, found: &mut ViolationList) {
        let rows = |converter: &mut RowConverter, columns: &[&str]| {
            let columns: Option<Vec<_>> =
                columns.iter().map(|name| batch.column_by_name(name).cloned()).collect();
            converter.convert_columns(&columns?).ok()
        };
        let has_key = !table.key.is_empty();
        let keys = if has_key { rows(&mut self.key, table.key) } else { None };
        let Some(sort) = rows(&mut self.sort, table.sort) else { return };
        for index in 0..sort.num_rows() {
            let row = sort.row(index);
            let before = match index.checked_sub(1) {
                Some(before) => Some(sort.row(before)),
                None => self.last.as_ref().map(|last| last.0.row()),
            };
            if before.is_some_and(|before| row < before) {
                let columns = table.sort.join(", ");
                found
                    .add(CaptureRule::Order, || format!("table `{}` is not sorted by {columns}", table.name));
            }
            let Some(keys) = &keys else { continue };
            if before != Some(row) {
                self.group.clear();
            } else if !self.joins_group(keys, index) {
                let columns = table.key.join(", ");
                found.add(CaptureRule::Key, || {
                    format!("two rows of table `{}` have one key ({columns})", table.name)
                });
            }
        }
        if let Some(end) = sort.num_rows().checked_sub(1) {
            let key = keys.as_ref().map_or_else(|| sort.row(end).owned(), |keys| keys.row(end).owned());
            self.last = Some((sort.row(end).owned(), key));
        }
    }

    /// Adds a row's key to its group, which the row before it belongs to; `false` where the group has the key.
    fn joins_group(&mut self, keys: &Rows, index: usize) -> bool {
        if self.group.is_empty() {
            let first = index.checked_sub(1).map(|before| keys.row(before).owned());
            self.group.extend(first.or_else(|| self.last.as_ref().map(|last| last.1.clone())));
        }
        self.group.insert(keys.row(index).owned())
    }
}
