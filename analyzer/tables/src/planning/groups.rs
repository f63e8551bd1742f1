//! Numbers for the keys that the rows of a join have in common.

use std::sync::Arc;

use arrow::array::{Array as _, RecordBatch};
use arrow::row::{OwnedRow, RowConverter, Rows, SortField};
use datafusion::common::HashMap;
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;

/// Bits of the numbers in a group: those of all types but decimals, and a sign.
const BITS: u32 = 80;
const LEAST: i128 = -(1 << (BITS - 1));
const MOST: i128 = (1 << (BITS - 1)) - 1;

/// The groups of rows with equal keys.
#[derive(Debug, Default)]
pub(super) struct KeyGroups {
    numbers: HashMap<OwnedRow, u32>,
    bytes: usize,
}

impl KeyGroups {
    /// The group of each row. None without keys. A row with a key that is null has no group: it equals no other.
    pub(super) fn add(
        &mut self,
        keys: &[Arc<dyn PhysicalExpr>],
        rows: &RecordBatch,
    ) -> Result<Option<Vec<Option<u32>>>> {
        let Some((keys, is_null)) = encoded(keys, rows)? else { return Ok(None) };
        let mut groups = Vec::new();
        for (key, is_null) in keys.iter().zip(is_null) {
            let next = u32::try_from(self.numbers.len()).unwrap_or(u32::MAX);
            groups.push((!is_null).then(|| {
                *self.numbers.entry(key.owned()).or_insert_with(|| {
                    self.bytes += key.data().len() + size_of::<(OwnedRow, u32)>();
                    next
                })
            }));
        }
        Ok(Some(groups))
    }

    /// The group of each row of the other side. None without keys.
    pub(super) fn find(
        &self,
        keys: &[Arc<dyn PhysicalExpr>],
        rows: &RecordBatch,
    ) -> Result<Option<Vec<Option<u32>>>> {
        let Some((keys, is_null)) = encoded(keys, rows)? else { return Ok(None) };
        let group = |(key, is_null): (arrow::row::Row<'_>, bool)| {
            if is_null { None } else { self.numbers.get(&key.owned()).copied() }
        };
        Ok(Some(keys.iter().zip(is_null).map(group).collect()))
    }

    /// Bytes of memory that they hold.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

/// Keys as comparable bytes, and true for each row with a key that is null.
fn encoded(keys: &[Arc<dyn PhysicalExpr>], rows: &RecordBatch) -> Result<Option<(Rows, Vec<bool>)>> {
    if keys.is_empty() {
        return Ok(None);
    }
    let columns = keys.iter().map(|key| key.evaluate(rows)?.into_array(rows.num_rows()));
    let columns = columns.collect::<Result<Vec<_>>>()?;
    let fields = columns.iter().map(|column| SortField::new(column.data_type().clone())).collect();
    let keys = RowConverter::new(fields)?.convert_columns(&columns)?;
    let is_null = |row| columns.iter().any(|column| column.is_null(row));
    Ok(Some((keys, (0..rows.num_rows()).map(is_null).collect())))
}

/// Moves numbers to those of their rows' groups. A number that is too large for a group becomes the largest: the condition
/// decides about pairs.
pub(super) fn in_group(numbers: &mut [Option<i128>], groups: &[Option<u32>]) {
    for (number, group) in numbers.iter_mut().zip(groups) {
        let moved = |(number, group): (i128, u32)| (i128::from(group) << BITS) + number.clamp(LEAST, MOST);
        *number = number.zip(*group).map(moved);
    }
}
