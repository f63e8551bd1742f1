//! Columns of batches and of files, by name and type.

use arrow::array::{ArrowPrimitiveType, AsArray as _, PrimitiveArray, RecordBatch};
use arrow::compute::can_cast_types;
use datafusion::error::{DataFusionError, Result};
use parquet::arrow::parquet_to_arrow_schema;
use parquet::schema::types::SchemaDescriptor;
use stallmap_schema::table::TableDef;
use stallmap_schema::tables::is_added_column;

/// An error for a file without a declared column, unless that was added later, or with one that is not read as its
/// type.
pub(crate) fn check(table: Option<&TableDef>, file: &SchemaDescriptor) -> Result<(), String> {
    let Some(table) = table else { return Ok(()) };
    let schema = parquet_to_arrow_schema(file, None).map_err(|error| error.to_string())?;
    for column in table.columns {
        let (name, wanted) = (column.name, (column.data_type)());
        match schema.field_with_name(name) {
            Err(_) if is_added_column(table.name, name) => {}
            Err(_) => return Err(format!("column `{name}` is missing")),
            Ok(field) if !can_cast_types(field.data_type(), &wanted) => {
                return Err(format!("column `{name}` has type {} instead of {wanted}", field.data_type()));
            }
            Ok(_) => {}
        }
    }
    Ok(())
}

/// A column of numbers. An error if it is missing or of another type.
pub fn column<'a, T: ArrowPrimitiveType>(
    batch: &'a RecordBatch,
    name: &str,
) -> Result<&'a PrimitiveArray<T>> {
    batch.column_by_name(name).and_then(|array| array.as_primitive_opt::<T>()).ok_or_else(|| wrong(name))
}

/// The error for a column that differs from the schema.
pub fn wrong(name: &str) -> DataFusionError {
    DataFusionError::Execution(format!("column `{name}` is missing or of another type than declared"))
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::{DataType, Field, Schema};
    use parquet::arrow::ArrowSchemaConverter;
    use stallmap_schema::table::TableRow as _;
    use stallmap_schema::tables::code::Module;
    use stallmap_schema::tables::sample::PcSample;

    use super::*;

    /// The file of a table whose columns were changed.
    fn file(table: &TableDef, change: impl Fn(&Field) -> Option<Field>) -> SchemaDescriptor {
        let fields: Vec<Field> = table.schema().fields().iter().filter_map(|field| change(field)).collect();
        ArrowSchemaConverter::new().convert(&Schema::new(fields)).unwrap()
    }

    #[test]
    fn a_table_without_its_columns_is_refused() {
        let table = &PcSample::TABLE;
        let is = |field: &Field| field.name() == "samples";
        let whole = file(table, |field| Some(field.clone()));
        assert_eq!(check(Some(table), &whole), Ok(()));
        let lacking = file(table, |field| (!is(field)).then(|| field.clone()));
        assert_eq!(check(Some(table), &lacking), Err("column `samples` is missing".to_owned()));
        assert_eq!(check(None, &lacking), Ok(()), "another release may have any columns");
        let nested = DataType::Struct(vec![Field::new("x", DataType::Int32, true)].into());
        let other = file(table, |field| {
            Some(if is(field) { field.clone().with_data_type(nested.clone()) } else { field.clone() })
        });
        let error = check(Some(table), &other).unwrap_err();
        assert!(error.starts_with("column `samples` has type Struct("), "{error}");
    }

    #[test]
    fn a_column_that_was_added_later_may_be_missing() {
        let added = |name: &str| is_added_column(Module::TABLE.name, name);
        let table = &Module::TABLE;
        let earlier = file(table, |field| (!added(field.name())).then(|| field.clone()));
        assert_eq!(check(Some(table), &earlier), Ok(()));
    }
}
