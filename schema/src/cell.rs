//! Conversion between Rust values and cells of Arrow columns.

use arrow::array::{
    Array, ArrayBuilder, AsArray, BinaryBuilder, BooleanBuilder, ListBuilder, PrimitiveBuilder, StringBuilder,
};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Field, Float64Type, Int32Type, Int64Type, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};

/// A type that a column can have.
pub trait ColumnCell: Sized {
    /// The Arrow builder that collects the column.
    type Builder: ArrayBuilder + Default;
    /// True if the column may hold nulls.
    const NULLABLE: bool;
    /// The column's Arrow type.
    fn data_type() -> DataType;
    /// Adds this value to the column.
    fn append(self, builder: &mut Self::Builder);
    /// Adds a null to the column.
    fn append_null(builder: &mut Self::Builder);
    /// The value at a row; `None` where it is null or where the array has another type.
    fn read(array: &dyn Array, row: usize) -> Option<Self>;
    /// Every text that the column may have; `None` where it may have any.
    fn words() -> Option<Vec<&'static str>> {
        None
    }
    /// The value where a file of an earlier release has no such column; `None` where there must be one.
    fn absent() -> Option<Self> {
        None
    }
}

macro_rules! primitive_cells {
    ($($rust:ty => $arrow:ty, $data_type:expr;)+) => {$(
        impl ColumnCell for $rust {
            type Builder = PrimitiveBuilder<$arrow>;
            const NULLABLE: bool = false;
            fn data_type() -> DataType { $data_type }
            fn append(self, builder: &mut Self::Builder) { builder.append_value(self); }
            fn append_null(builder: &mut Self::Builder) { builder.append_null(); }
            fn read(array: &dyn Array, row: usize) -> Option<Self> { read_primitive::<$arrow>(array, row) }
        }

        impl ColumnCell for Vec<$rust> {
            type Builder = ListBuilder<PrimitiveBuilder<$arrow>>;
            const NULLABLE: bool = false;
            fn data_type() -> DataType { DataType::List(Field::new_list_field($data_type, true).into()) }
            fn append(self, builder: &mut Self::Builder) {
                builder.values().append_slice(&self);
                builder.append(true);
            }
            fn append_null(builder: &mut Self::Builder) { builder.append_null(); }
            fn read(array: &dyn Array, row: usize) -> Option<Self> {
                let list = array.as_list_opt::<i32>().filter(|list| list.is_valid(row))?.value(row);
                list.as_primitive_opt::<$arrow>().map(|values| values.values().to_vec())
            }
        }
    )+};
}

primitive_cells! {
    u16 => UInt16Type, DataType::UInt16;
    u32 => UInt32Type, DataType::UInt32;
    u64 => UInt64Type, DataType::UInt64;
    i32 => Int32Type, DataType::Int32;
    i64 => Int64Type, DataType::Int64;
    f64 => Float64Type, DataType::Float64;
}

impl ColumnCell for u8 {
    type Builder = PrimitiveBuilder<UInt8Type>;
    const NULLABLE: bool = false;
    fn data_type() -> DataType {
        DataType::UInt8
    }
    fn append(self, builder: &mut Self::Builder) {
        builder.append_value(self);
    }
    fn append_null(builder: &mut Self::Builder) {
        builder.append_null();
    }
    fn read(array: &dyn Array, row: usize) -> Option<Self> {
        read_primitive::<UInt8Type>(array, row)
    }
}

impl ColumnCell for bool {
    type Builder = BooleanBuilder;
    const NULLABLE: bool = false;
    fn data_type() -> DataType {
        DataType::Boolean
    }
    fn append(self, builder: &mut Self::Builder) {
        builder.append_value(self);
    }
    fn append_null(builder: &mut Self::Builder) {
        builder.append_null();
    }
    fn read(array: &dyn Array, row: usize) -> Option<Self> {
        array.as_boolean_opt().filter(|values| values.is_valid(row)).map(|values| values.value(row))
    }
}

impl ColumnCell for String {
    type Builder = StringBuilder;
    const NULLABLE: bool = false;
    fn data_type() -> DataType {
        DataType::Utf8
    }
    fn append(self, builder: &mut Self::Builder) {
        builder.append_value(self);
    }
    fn append_null(builder: &mut Self::Builder) {
        builder.append_null();
    }
    fn read(array: &dyn Array, row: usize) -> Option<Self> {
        read_text(array, row)
    }
}

/// Raw bytes. A newtype, because `Vec<u8>` would read as a list of numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Blob(pub Vec<u8>);

impl ColumnCell for Blob {
    type Builder = BinaryBuilder;
    const NULLABLE: bool = false;
    fn data_type() -> DataType {
        DataType::Binary
    }
    fn append(self, builder: &mut Self::Builder) {
        builder.append_value(self.0);
    }
    fn append_null(builder: &mut Self::Builder) {
        builder.append_null();
    }
    fn read(array: &dyn Array, row: usize) -> Option<Self> {
        let values = array.as_binary_opt::<i32>().filter(|values| values.is_valid(row))?;
        Some(Self(values.value(row).to_vec()))
    }
}

impl<T: ColumnCell> ColumnCell for Option<T> {
    type Builder = T::Builder;
    const NULLABLE: bool = true;
    fn data_type() -> DataType {
        T::data_type()
    }
    fn words() -> Option<Vec<&'static str>> {
        T::words()
    }
    fn append(self, builder: &mut Self::Builder) {
        match self {
            Some(value) => value.append(builder),
            None => T::append_null(builder),
        }
    }
    fn append_null(builder: &mut Self::Builder) {
        T::append_null(builder);
    }
    fn read(array: &dyn Array, row: usize) -> Option<Self> {
        Some(T::read(array, row))
    }
    fn absent() -> Option<Self> {
        Some(None)
    }
}

/// The Arrow type of a closed vocabulary.
pub fn word_type() -> DataType {
    DataType::Dictionary(DataType::UInt8.into(), DataType::Utf8.into())
}

/// Text at a row, from a plain or a dictionary-encoded column.
pub fn read_text(array: &dyn Array, row: usize) -> Option<String> {
    if row >= array.len() || array.is_null(row) {
        return None;
    }
    if let Some(values) = array.as_string_opt::<i32>() {
        return Some(values.value(row).to_owned());
    }
    let words = array.as_dictionary_opt::<UInt8Type>()?;
    let key = words.key(row)?;
    let values = words.values().as_string_opt::<i32>()?;
    (key < values.len()).then(|| values.value(key).to_owned())
}

fn read_primitive<T: ArrowPrimitiveType>(array: &dyn Array, row: usize) -> Option<T::Native> {
    let values = array.as_primitive_opt::<T>()?;
    (row < values.len() && values.is_valid(row)).then(|| values.value(row))
}
