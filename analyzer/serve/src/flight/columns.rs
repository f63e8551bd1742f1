//! The types that clients get: plain ones, which every reader of Arrow knows.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use arrow::error::ArrowError;

/// The schema of an answer before its rows are computed. All columns may have nulls: a plan knows more about them when it
/// runs, and clients compare both schemas.
pub(crate) fn plain(schema: &Schema) -> SchemaRef {
    let fields =
        schema.fields().iter().map(|field| Field::new(field.name(), plain_type(field.data_type()), true));
    SchemaRef::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// A batch with the types of a plain schema.
pub(crate) fn plain_batch(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
    let columns = batch.columns().iter().zip(schema.fields());
    let columns: Result<Vec<ArrayRef>, ArrowError> = columns
        .map(|(column, field)| {
            let is_plain = column.data_type() == field.data_type();
            if is_plain { Ok(Arc::clone(column)) } else { cast(column, field.data_type()) }
        })
        .collect();
    let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(SchemaRef::clone(schema), columns?, &options)
}

/// Dictionaries are sent as their values, and views as texts and bytes.
fn plain_type(data_type: &DataType) -> DataType {
    let item = |field: &FieldRef| {
        let name = field.name();
        Arc::new(Field::new(name, plain_type(field.data_type()), true))
    };
    match data_type {
        DataType::Utf8View => DataType::Utf8,
        DataType::BinaryView => DataType::Binary,
        DataType::Dictionary(_, value) => plain_type(value),
        DataType::List(field) | DataType::ListView(field) => DataType::List(item(field)),
        DataType::LargeList(field) | DataType::LargeListView(field) => DataType::LargeList(item(field)),
        DataType::FixedSizeList(field, size) => DataType::FixedSizeList(item(field), *size),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(item).collect()),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{DictionaryArray, Int64Array, ListArray, StringViewArray, UInt64Array};
    use arrow::datatypes::{Int32Type, Int64Type};

    use super::*;

    #[test]
    fn batches_have_plain_types() {
        let words: DictionaryArray<Int32Type> = vec!["a", "b", "a"].into_iter().collect();
        let lists =
            ListArray::from_iter_primitive::<Int64Type, _, _>([Some(vec![Some(1)]), None, Some(vec![])]);
        let columns: [(&str, ArrayRef); 4] = [
            ("word", Arc::new(words)),
            ("view", Arc::new(StringViewArray::from(vec![Some("x"), None, Some("z")]))),
            ("id", Arc::new(UInt64Array::from(vec![1, 2, u64::MAX]))),
            ("list", Arc::new(lists)),
        ];
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let schema = plain(&batch.schema());
        let sent = plain_batch(&batch, &schema).unwrap();
        assert_eq!(sent.schema(), schema);
        let types: Vec<&DataType> = schema.fields().iter().map(|field| field.data_type()).collect();
        assert_eq!(types[..3], [&DataType::Utf8, &DataType::Utf8, &DataType::UInt64]);
        assert!(sent.column(1).is_null(1) && sent.column(3).is_null(1));
        let empty =
            RecordBatch::try_from_iter([("n", Arc::new(Int64Array::from(vec![1])) as ArrayRef)]).unwrap();
        let none = empty.project(&[]).unwrap();
        assert_eq!(plain_batch(&none, &plain(&none.schema())).unwrap().num_rows(), 1);
    }
}
