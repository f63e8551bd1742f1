//! Functions of PostgreSQL that clients call about the catalog.

use std::sync::Arc;

use arrow::array::{Array as _, ArrayRef, AsArray as _, Int64Array, StringArray};
use arrow::datatypes::{DataType, Int64Type};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::{ColumnarValue, ScalarUDF, Volatility, create_udf};

use super::relations::CatalogRelations;
use crate::kind::{ColumnType, PostgresType};

/// Functions that return one value. Names without schema mean the first capture.
pub(super) fn constant(first: &str) -> Vec<ScalarUDF> {
    let version = concat!("PostgreSQL 14.0 (the protocol only: stallmap ", env!("CARGO_PKG_VERSION"), ")");
    let texts = [("version", version), ("current_database", "stallmap"), ("current_schema", first)];
    let mut functions: Vec<ScalarUDF> =
        texts.into_iter().map(|(name, value)| same(name, vec![], ScalarValue::from(value))).collect();
    let number = || vec![DataType::Int64];
    functions.push(same("pg_get_userbyid", number(), ScalarValue::from("stallmap")));
    functions.push(same("pg_encoding_to_char", number(), ScalarValue::from("UTF8")));
    functions.push(same("pg_table_is_visible", number(), ScalarValue::from(true)));
    functions.push(same("pg_type_is_visible", number(), ScalarValue::from(true)));
    functions.push(same("pg_table_size", number(), ScalarValue::Int64(None)));
    functions.push(same("pg_size_pretty", number(), ScalarValue::Utf8(None)));
    functions.push(type_of_name());
    functions.push(same("pg_is_in_recovery", vec![], ScalarValue::from(false)));
    functions
}

fn same(name: &str, arguments: Vec<DataType>, value: ScalarValue) -> ScalarUDF {
    let result = value.data_type();
    let function = move |_: &[ColumnarValue]| Ok(ColumnarValue::Scalar(value.clone()));
    create_udf(name, arguments, result, Volatility::Stable, Arc::new(function))
}

/// `to_regtype`: the number of a type by its name, or null.
fn type_of_name() -> ScalarUDF {
    let function = |arguments: &[ColumnarValue]| -> Result<ColumnarValue> {
        let arrays = ColumnarValue::values_to_arrays(arguments)?;
        let names = arrays.iter().flat_map(|names| names.as_string::<i32>().iter());
        let known = |name: &str| {
            PostgresType::ALL.into_iter().find(|kind| [kind.entry().2, kind.sql_name()].contains(&name))
        };
        let ids = names.map(|name| name.and_then(known).map(|kind| i64::from(kind.type_id())));
        Ok(ColumnarValue::Array(Arc::new(ids.collect::<Int64Array>())))
    };
    create_udf("to_regtype", vec![DataType::Utf8], DataType::Int64, Volatility::Stable, Arc::new(function))
}

/// The names of functions that look into the catalog.
pub(super) fn of_relations_names() -> impl Iterator<Item = &'static str> {
    ["format_type", "obj_description", "col_description"].into_iter()
}

/// Functions that look into the catalog.
pub(super) fn of_relations(relations: &Arc<CatalogRelations>) -> Vec<ScalarUDF> {
    let (views, docs, columns) = (Arc::clone(relations), Arc::clone(relations), Arc::clone(relations));
    let definition = move |id, _| Some(views.get(id)?.sql.as_deref()?.trim().to_owned());
    let doc = move |id, _| Some(docs.get(id)?.doc.clone()).filter(|doc| !doc.is_empty());
    let column_doc = move |id, number: i64| {
        let index = usize::try_from(number.checked_sub(1)?).ok()?;
        Some(columns.get(id)?.columns.get(index)?.2.clone()).filter(|doc| !doc.is_empty())
    };
    vec![
        look_up("pg_get_viewdef", DataType::Boolean, definition),
        look_up("obj_description", DataType::Utf8, doc),
        look_up("col_description", DataType::Int64, column_doc),
        look_up("format_type", DataType::Int64, |id, _| Some(type_name(id))),
    ]
}

fn type_name(id: i64) -> String {
    let of = |is_array| PostgresType::ALL.map(|kind| ColumnType { kind, is_array });
    let known = of(false).into_iter().chain(of(true)).find(|column| i64::from(column.type_id()) == id);
    known.map_or_else(|| "???".to_owned(), ColumnType::sql_name)
}

/// A function of a number and a second value, which counts only if it is a number.
fn look_up(
    name: &str,
    second: DataType,
    text: impl Fn(i64, i64) -> Option<String> + Send + Sync + 'static,
) -> ScalarUDF {
    let function = move |arguments: &[ColumnarValue]| -> Result<ColumnarValue> {
        let arrays = ColumnarValue::values_to_arrays(arguments)?;
        let [ids, second] = arrays.as_slice() else {
            return datafusion::common::exec_err!("two arguments are needed");
        };
        let (ids, second) = (ids.as_primitive::<Int64Type>(), second.as_primitive_opt::<Int64Type>());
        let rows = (0..ids.len()).map(|row| {
            let second = second.filter(|second| !second.is_null(row)).map_or(0, |second| second.value(row));
            if ids.is_null(row) { None } else { text(ids.value(row), second) }
        });
        let texts: ArrayRef = Arc::new(rows.collect::<StringArray>());
        Ok(ColumnarValue::Array(texts))
    };
    create_udf(name, vec![DataType::Int64, second], DataType::Utf8, Volatility::Stable, Arc::new(function))
}
