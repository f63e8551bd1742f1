//! One table by itself: schema, rows, order, keys, lives.

use std::collections::BTreeSet;

use arrow::array::{Array, RecordBatch};
use arrow::datatypes::Schema;
use arrow::row::{OwnedRow, RowConverter, Rows, SortField};

use super::{Found, Rule};
use crate::capture::reader::CaptureReader;
use crate::cell::Cell;
use crate::table::TableDef;

pub(super) fn check(reader: &CaptureReader, table: &TableDef, found: &mut Found) {
    let batches = match reader.read_table(table.name) {
        Ok(batches) => batches,
        Err(error) => return found.unreadable(&error),
    };
    if !check_schema(table, batches.schema(), found) {
        return;
    }
    let mut order = Order::new(table);
    let mut rows = 0;
    for batch in batches {
        let batch = match batch {
            Ok(batch) => batch,
            Err(error) => return found.unreadable(&error),
        };
        rows += batch.num_rows() as u64;
        check_lives(table, &batch, found);
        if let Some(order) = &mut order {
            order.check(table, &batch, found);
        }
    }
    let said = reader.tables().iter().find(|entry| entry.name == table.name).map(|entry| entry.rows);
    if said != Some(rows) {
        let said = said.unwrap_or(0);
        found.add(Rule::Schema, || {
            format!("table `{}` has {rows} rows, and the manifest says {said}", table.name)
        });
    }
}

fn check_schema(table: &TableDef, schema: &Schema, found: &mut Found) -> bool {
    let mut complete = true;
    for column in table.columns {
        let wanted = (column.data_type)();
        let problem = match schema.field_with_name(column.name) {
            Err(_) => "is missing".to_owned(),
            Ok(field) if *field.data_type() != wanted => {
                format!("has type {} instead of {wanted}", field.data_type())
            }
            Ok(_) => continue,
        };
        complete = false;
        found.add(Rule::Schema, || format!("column `{}` of table `{}` {problem}", column.name, table.name));
    }
    complete
}

fn check_lives(table: &TableDef, batch: &RecordBatch, found: &mut Found) {
    let column = |name| batch.column_by_name(name);
    if let (Some(begin), Some(end)) = (column("alloc_ns"), column("free_ns")) {
        for row in 0..batch.num_rows() {
            let times = (i64::read(begin, row), i64::read(end, row));
            if let (Some(begin), Some(end)) = times
                && end < begin
            {
                found.add(Rule::Life, || format!("`{}`: freed at {end}, before {begin}", table.name));
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
                found.add(Rule::Life, || format!("`{name}`: freed at launch {end}, before launch {begin}"));
            }
        }
    }
}

/// Compares each row with the one before: order, and keys. Rows with one key stand in one group of rows that are
/// equal in the order's columns, because those are part of every key.
struct Order {
    sort: RowConverter,
    key: RowConverter,
    last: Option<OwnedRow>,
    keys: BTreeSet<OwnedRow>,
}

impl Order {
    fn new(table: &TableDef) -> Option<Self> {
        let converter = |columns: &[&str]| {
            let field = |name: &&str| table.columns.iter().find(|column| column.name == *name);
            let fields = columns.iter().filter_map(field).map(|column| SortField::new((column.data_type)()));
            RowConverter::new(fields.collect()).ok()
        };
        let (sort, key) = (converter(table.sort)?, converter(table.key)?);
        (!table.sort.is_empty()).then_some(Self { sort, key, last: None, keys: BTreeSet::new() })
    }

    fn check(&mut self, table: &TableDef, batch: &RecordBatch, found: &mut Found) {
        let sort = convert(&mut self.sort, table.sort, batch);
        let key = if table.key.is_empty() { None } else { convert(&mut self.key, table.key, batch) };
        let Some(sort) = sort else { return };
        for (index, row) in sort.iter().enumerate() {
            let last = self.last.as_ref().map(OwnedRow::row);
            if last.is_some_and(|last| row < last) {
                found.add(Rule::Order, || {
                    format!("table `{}` is not sorted at a row of {:?}", table.name, table.sort)
                });
            }
            let same_group = last == Some(row);
            if let Some(key) = &key {
                if !same_group {
                    self.keys.clear();
                }
                if !self.keys.insert(key.row(index).owned()) {
                    found.add(Rule::Key, || {
                        format!("two rows of table `{}` have one key {:?}", table.name, table.key)
                    });
                }
            }
            if !same_group {
                self.last = Some(row.owned());
            }
        }
    }
}

fn convert(converter: &mut RowConverter, columns: &[&str], batch: &RecordBatch) -> Option<Rows> {
    let columns: Option<Vec<_>> = columns.iter().map(|name| batch.column_by_name(name).cloned()).collect();
    converter
        .convert_columns(
            &columns.filter(|columns| columns.iter().all(|column| column.len() == batch.num_rows()))?,
        )
        .ok()
}
