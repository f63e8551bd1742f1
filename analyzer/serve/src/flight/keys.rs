//! Keys of tables. Captures declare none, and tools that ask for them get an answer without rows.

use arrow::array::RecordBatch;
use arrow::datatypes::DataType::{Int32, UInt8, Utf8};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};

/// Columns of the answer about primary keys: name, type, true if it may be null.
const PRIMARY: [(&str, DataType, bool); 6] = [
    ("catalog_name", Utf8, true),
    ("db_schema_name", Utf8, true),
    ("table_name", Utf8, false),
    ("column_name", Utf8, false),
    ("key_sequence", Int32, false),
    ("key_name", Utf8, true),
];
/// Columns of the answers about keys that refer to others.
const FOREIGN: [(&str, DataType, bool); 13] = [
    ("pk_catalog_name", Utf8, true),
    ("pk_db_schema_name", Utf8, true),
    ("pk_table_name", Utf8, false),
    ("pk_column_name", Utf8, false),
    ("fk_catalog_name", Utf8, true),
    ("fk_db_schema_name", Utf8, true),
    ("fk_table_name", Utf8, false),
    ("fk_column_name", Utf8, false),
    ("key_sequence", Int32, false),
    ("fk_key_name", Utf8, true),
    ("pk_key_name", Utf8, true),
    ("update_rule", UInt8, false),
    ("delete_rule", UInt8, false),
];

/// The answer about primary keys.
pub(crate) fn primary() -> RecordBatch {
    none(&PRIMARY)
}

/// The answer about keys that refer to others, in either direction.
pub(crate) fn foreign() -> RecordBatch {
    none(&FOREIGN)
}

fn none(columns: &[(&str, DataType, bool)]) -> RecordBatch {
    let fields =
        columns.iter().map(|(name, data_type, is_null)| Field::new(*name, data_type.clone(), *is_null));
    RecordBatch::new_empty(SchemaRef::new(Schema::new(fields.collect::<Vec<_>>())))
}
