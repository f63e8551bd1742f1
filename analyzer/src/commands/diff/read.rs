//! Reads the columns of a query's rows, in any encoding.

use arrow::array::{ArrayRef, AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type, UInt64Type};

use super::row::Row;
use crate::commands::arrow_failure;
use crate::exit::{Failure, Outcome, QUERY};

/// The columns of a batch by name.
#[derive(Clone, Copy, Debug)]
pub(in crate::commands) struct Columns<'a>(&'a RecordBatch);

impl<'a> Columns<'a> {
    pub(in crate::commands) const fn of(batch: &'a RecordBatch) -> Self {
        Self(batch)
    }

    pub(in crate::commands) fn texts(self, name: &str) -> Outcome<Vec<Option<String>>> {
        let array = self.column(name, &DataType::LargeUtf8)?;
        Ok(array.as_string::<i64>().iter().map(|text| text.map(str::to_owned)).collect())
    }

    /// Integers.
    pub(in crate::commands) fn integers(self, name: &str) -> Outcome<Vec<Option<usize>>> {
        let array = self.column(name, &DataType::UInt64)?;
        let integer = |number: u64| usize::try_from(number).ok();
        Ok(array.as_primitive::<UInt64Type>().iter().map(|number| number.and_then(integer)).collect())
    }

    pub(in crate::commands) fn numbers(self, name: &str) -> Outcome<Vec<Option<f64>>> {
        let array = self.column(name, &DataType::Float64)?;
        Ok(array.as_primitive::<Float64Type>().iter().collect())
    }

    fn column(self, name: &str, data_type: &DataType) -> Outcome<ArrayRef> {
        let found = self.0.column_by_name(name);
        let found =
            found.ok_or_else(|| Failure::message(QUERY, format!("sql/diff has no column `{name}`")))?;
        cast(found, data_type).map_err(arrow_failure)
    }
}

/// The rows of a comparison.
pub(super) fn rows(batches: &[RecordBatch]) -> Outcome<Vec<Row>> {
    let mut rows = Vec::new();
    for batch in batches {
        let columns = Columns::of(batch);
        let texts = ["capture", "what", "detail", "was", "verdict", "status"];
        let texts = texts.into_iter().map(|name| columns.texts(name)).collect::<Outcome<Vec<_>>>()?;
        let numbers = [
            "place",
            "rows",
            "new_rows",
            "gone_rows",
            "base_launches",
            "launches",
            "base_value",
            "value",
            "change",
            "change_low",
            "change_high",
            "ratio",
            "ratio_low",
            "ratio_high",
        ];
        let numbers = numbers.into_iter().map(|name| columns.numbers(name)).collect::<Outcome<Vec<_>>>()?;
        for at in 0..batch.num_rows() {
            let mut texts = texts.iter().map(|column| column.get(at).cloned().flatten());
            let mut text = || texts.next().flatten();
            let mut numbers = numbers.iter().map(|column| column.get(at).copied().flatten());
            let mut number = || numbers.next().flatten();
            rows.push(Row {
                capture: text().unwrap_or_default(),
                what: text().unwrap_or_default(),
                detail: text(),
                was: text(),
                verdict: text(),
                status: text(),
                place: number().unwrap_or_default(),
                rows: number().unwrap_or_default(),
                new_rows: number().unwrap_or_default(),
                gone_rows: number().unwrap_or_default(),
                base_launches: number().unwrap_or_default(),
                launches: number().unwrap_or_default(),
                base_value: number().unwrap_or_default(),
                value: number().unwrap_or_default(),
                change: number().unwrap_or_default(),
                change_low: number().unwrap_or_default(),
                change_high: number().unwrap_or_default(),
                ratio: number(),
                ratio_low: number(),
                ratio_high: number(),
            });
        }
    }
    Ok(rows)
}
