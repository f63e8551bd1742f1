//! PostgreSQL's types for columns: their numbers, and the array that each is written from.

use std::sync::Arc;

use arrow::array::{ArrayRef, StringBuilder};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, TimeUnit};
use arrow::error::ArrowError;
use arrow::util::display::{ArrayFormatter, FormatOptions};

/// A type of PostgreSQL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PostgresType {
    Bool,
    Int2,
    Int4,
    Int8,
    Float4,
    Float8,
    /// Unsigned numbers of 64 bits and decimals, without loss.
    Numeric,
    Text,
    Bytes,
    Date,
    /// Microseconds: nanoseconds are cut.
    Timestamp,
    TimestampTz,
}

/// The type of a column: a kind, or arrays of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ColumnType {
    pub(crate) kind: PostgresType,
    pub(crate) is_array: bool,
}

impl PostgresType {
    pub(crate) const ALL: [Self; 12] = [
        Self::Bool,
        Self::Int2,
        Self::Int4,
        Self::Int8,
        Self::Float4,
        Self::Float8,
        Self::Numeric,
        Self::Text,
        Self::Bytes,
        Self::Date,
        Self::Timestamp,
        Self::TimestampTz,
    ];

    /// Numbers of the type and of its arrays, name, and bytes of a value or -1, as in PostgreSQL's catalog.
    pub(crate) const fn entry(self) -> (u32, u32, &'static str, i16) {
        match self {
            Self::Bool => (16, 1_000, "bool", 1),
            Self::Int2 => (21, 1_005, "int2", 2),
            Self::Int4 => (23, 1_007, "int4", 4),
            Self::Int8 => (20, 1_016, "int8", 8),
            Self::Float4 => (700, 1_021, "float4", 4),
            Self::Float8 => (701, 1_022, "float8", 8),
            Self::Numeric => (1_700, 1_231, "numeric", -1),
            Self::Text => (25, 1_009, "text", -1),
            Self::Bytes => (17, 1_001, "bytea", -1),
            Self::Date => (1_082, 1_182, "date", 4),
            Self::Timestamp => (1_114, 1_115, "timestamp", 8),
            Self::TimestampTz => (1_184, 1_185, "timestamptz", 8),
        }
    }

    /// The type's name in SQL, as `\d` shows it.
    pub(crate) const fn sql_name(self) -> &'static str {
        match self {
            Self::Bool => "boolean",
            Self::Int2 => "smallint",
            Self::Int4 => "integer",
            Self::Int8 => "bigint",
            Self::Float4 => "real",
            Self::Float8 => "double precision",
            Self::Timestamp => "timestamp without time zone",
            Self::TimestampTz => "timestamp with time zone",
            Self::Numeric | Self::Text | Self::Bytes | Self::Date => self.entry().2,
        }
    }

    pub(crate) const fn type_id(self) -> u32 {
        self.entry().0
    }

    /// The kind of a number that a client declares for a parameter.
    pub(crate) fn of_id(type_id: u32) -> Option<Self> {
        let is_text = |id| matches!(id, 18 | 19 | 1_042 | 1_043);
        let same = Self::ALL.into_iter().find(|kind| kind.type_id() == type_id);
        same.or_else(|| is_text(type_id).then_some(Self::Text))
    }

    fn from_arrow(data_type: &DataType) -> Self {
        match data_type {
            DataType::Boolean => Self::Bool,
            DataType::Int8 | DataType::Int16 | DataType::UInt8 => Self::Int2,
            DataType::Int32 | DataType::UInt16 => Self::Int4,
            DataType::Int64 | DataType::UInt32 => Self::Int8,
            DataType::UInt64 | DataType::Decimal128(..) | DataType::Decimal256(..) => Self::Numeric,
            DataType::Float16 | DataType::Float32 => Self::Float4,
            DataType::Float64 => Self::Float8,
            DataType::Binary
            | DataType::LargeBinary
            | DataType::BinaryView
            | DataType::FixedSizeBinary(_) => Self::Bytes,
            DataType::Date32 | DataType::Date64 => Self::Date,
            DataType::Timestamp(_, None) => Self::Timestamp,
            DataType::Timestamp(_, Some(_)) => Self::TimestampTz,
            DataType::Dictionary(_, value) => Self::from_arrow(value),
            _ => Self::Text,
        }
    }

    /// The type of the array that values are written from.
    pub(crate) fn data_type(self) -> DataType {
        match self {
            Self::Bool => DataType::Boolean,
            Self::Int2 => DataType::Int16,
            Self::Int4 => DataType::Int32,
            Self::Int8 => DataType::Int64,
            Self::Float4 => DataType::Float32,
            Self::Float8 => DataType::Float64,
            Self::Numeric | Self::Text => DataType::Utf8,
            Self::Bytes => DataType::Binary,
            Self::Date => DataType::Date32,
            Self::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, None),
            Self::TimestampTz => DataType::Timestamp(TimeUnit::Microsecond, Some("+00:00".into())),
        }
    }
}

impl ColumnType {
    /// The type for a column. Structs and lists of lists are texts.
    pub(crate) fn from_arrow(data_type: &DataType) -> Self {
        match data_type {
            DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _)
                if !item.data_type().is_nested() =>
            {
                Self { kind: PostgresType::from_arrow(item.data_type()), is_array: true }
            }
            other => Self { kind: PostgresType::from_arrow(other), is_array: false },
        }
    }

    pub(crate) const fn type_id(self) -> u32 {
        let (type_id, array_id, ..) = self.kind.entry();
        if self.is_array { array_id } else { type_id }
    }

    pub(crate) const fn size(self) -> i16 {
        if self.is_array { -1 } else { self.kind.entry().3 }
    }

    /// The name in SQL.
    pub(crate) fn sql_name(self) -> String {
        format!("{}{}", self.kind.sql_name(), if self.is_array { "[]" } else { "" })
    }

    /// The array that values are written from.
    pub(crate) fn prepared(self, array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
        let item = self.kind.data_type();
        let wanted =
            if self.is_array { DataType::List(Arc::new(Field::new_list_field(item, true))) } else { item };
        if *array.data_type() == wanted {
            Ok(Arc::clone(array))
        } else if self.kind == PostgresType::Text && array.data_type().is_nested() && !self.is_array {
            shown(array)
        } else {
            cast(array, &wanted)
        }
    }
}

/// Nested values as text.
fn shown(array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    let options = FormatOptions::default();
    let values = ArrayFormatter::try_new(array.as_ref(), &options)?;
    let mut texts = StringBuilder::new();
    for row in 0..array.len() {
        if array.is_null(row) {
            texts.append_null();
        } else {
            texts.append_value(values.value(row).try_to_string()?);
        }
    }
    Ok(Arc::new(texts.finish()))
}
