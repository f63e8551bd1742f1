//! Rows of a query as structs: fields are columns by name.
//!
//! ```text
//! rows! {
//!     /// A kernel and its cost.
//!     #[derive(Clone, Debug)]
//!     struct Kernel { function_id: u64, name: Option<String> as "kernel", samples: f64 }
//! }
//! let kernels = Kernel::read("kernels", &batches)?;
//! ```
//!
//! A column is cast to its field's type. A null needs an `Option`. Errors name the query and the column.

use arrow::array::{Array as _, ArrayRef, AsArray as _, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Int64Type};
use stallmap_schema::cell::ColumnCell;

use crate::exit::{CommandFailure, Outcome, QUERY};
use crate::explain::arrow_failure;

/// A struct that [`rows!`](crate::rows) declared.
pub trait QueryRow: Sized {
    /// The columns that it reads.
    const COLUMNS: &'static [&'static str];

    /// The rows of some batches; `query` names them in errors.
    fn read(query: &str, batches: &[RecordBatch]) -> Outcome<Vec<Self>>;
}

/// A type of a field.
pub trait RowValue: Sized {
    /// The Arrow type that its column is cast to.
    fn data_type() -> DataType;
    /// The value at a row; none where a null is not allowed.
    fn at(column: &ArrayRef, row: usize) -> Option<Self>;
}

/// A list of texts. A null is an empty list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TextList(pub Vec<String>);

/// A list of integers. A null is an empty list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IntegerCells(pub Vec<i64>);

macro_rules! cells {
    ($($type:ty)+) => {$(
        impl RowValue for $type {
            fn data_type() -> DataType { <$type as ColumnCell>::data_type() }
            fn at(column: &ArrayRef, row: usize) -> Option<Self> { <$type as ColumnCell>::read(column, row) }
        }
        impl RowValue for Option<$type> {
            fn data_type() -> DataType { <$type as ColumnCell>::data_type() }
            fn at(column: &ArrayRef, row: usize) -> Option<Self> { Some(<$type as ColumnCell>::read(column, row)) }
        }
    )+};
}

cells! { u32 u64 i64 f64 bool String }

impl RowValue for TextList {
    fn data_type() -> DataType {
        DataType::List(Field::new_list_field(DataType::Utf8, true).into())
    }

    fn at(column: &ArrayRef, row: usize) -> Option<Self> {
        if column.is_null(row) {
            return Some(Self::default());
        }
        let texts = column.as_list_opt::<i32>()?.value(row);
        Some(Self(texts.as_string_opt::<i32>()?.iter().flatten().map(str::to_owned).collect()))
    }
}

impl RowValue for IntegerCells {
    fn data_type() -> DataType {
        DataType::List(Field::new_list_field(DataType::Int64, true).into())
    }

    fn at(column: &ArrayRef, row: usize) -> Option<Self> {
        if column.is_null(row) {
            return Some(Self::default());
        }
        let numbers = column.as_list_opt::<i32>()?.value(row);
        Some(Self(numbers.as_primitive_opt::<Int64Type>()?.iter().flatten().collect()))
    }
}

/// A column of a batch as a field's type.
pub fn column<T: RowValue>(query: &str, batch: &RecordBatch, name: &str) -> Outcome<Vec<T>> {
    let found = batch.column_by_name(name);
    let found = found
        .ok_or_else(|| CommandFailure::message(QUERY, format!("query `{query}` has no column `{name}`")))?;
    let found = cast(found, &T::data_type()).map_err(arrow_failure)?;
    let null = |row| {
        let message = format!("column `{name}` of query `{query}` is null in row {}", row + 1);
        CommandFailure::message(QUERY, message)
    };
    (0..found.len()).map(|row| T::at(&found, row).ok_or_else(|| null(row))).collect()
}

/// Declares structs with a [`QueryRow::read`](crate::row::QueryRow) of their columns; `as "name"` names a column that the field
/// does not.
#[macro_export]
macro_rules! rows {
    ($(
        $(#[$meta:meta])*
        $vis:vis struct $name:ident {
            $($(#[$field_meta:meta])* $field_vis:vis $field:ident: $type:ty $(as $column:literal)?),* $(,)?
        }
    )+) => {$(
        $(#[$meta])*
        $vis struct $name {
            $($(#[$field_meta])* $field_vis $field: $type,)*
        }

        impl $crate::row::QueryRow for $name {
            const COLUMNS: &'static [&'static str] = &[$($crate::column_name!($field $($column)?)),*];

            fn read(
                query: &str,
                batches: &[::arrow::array::RecordBatch],
            ) -> $crate::exit::Outcome<Vec<Self>> {
                let mut rows = Vec::new();
                for batch in batches {
                    $(let mut $field = $crate::row::column::<$type>(
                        query, batch, $crate::column_name!($field $($column)?),
                    )?.into_iter();)*
                    // All columns of a batch have its length, so no iterator ends before another.
                    while let ($(Some($field),)*) = ($($field.next(),)*) {
                        rows.push(Self { $($field,)* });
                    }
                }
                Ok(rows)
            }
        }
    )+};
}

/// The column of a field.
#[doc(hidden)]
#[macro_export]
macro_rules! column_name {
    ($field:ident) => {
        stringify!($field)
    };
    ($field:ident $column:literal) => {
        $column
    };
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Float32Array, StringArray, UInt32Array};

    use super::*;

    rows! {
        /// A row.
        #[derive(Debug, PartialEq)]
        struct ExampleRow {
            id: u64,
            text: Option<String> as "name",
            size: f64,
        }
    }

    fn batch(names: &str) -> RecordBatch {
        RecordBatch::try_from_iter([
            ("id", Arc::new(UInt32Array::from(vec![1, 2])) as ArrayRef),
            (names, Arc::new(StringArray::from(vec![Some("a"), None]))),
            ("size", Arc::new(Float32Array::from(vec![Some(0.5), None]))),
        ])
        .unwrap_or_else(|_| RecordBatch::new_empty(Arc::new(arrow::datatypes::Schema::empty())))
    }

    #[test]
    fn columns_are_found_by_name_and_cast() {
        let rows = ExampleRow::read("q", &[batch("name").slice(0, 1)]).unwrap_or_default();
        assert_eq!(rows, [ExampleRow { id: 1, text: Some("a".to_owned()), size: 0.5 }]);
        assert_eq!(ExampleRow::COLUMNS, ["id", "name", "size"]);
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        let message = |batch| {
            ExampleRow::read("q", &[batch]).map_or_else(|failure| failure.to_string(), |_| String::new())
        };
        assert!(message(batch("other")).contains("query `q` has no column `name`"));
        assert!(message(batch("name")).contains("column `size` of query `q` is null in row 2"));
    }
}
