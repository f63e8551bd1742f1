//! The captures that can have rows of a query: by facts, by rows of tables, and by functions. All of these are in the
//! catalog, so the rest stay closed.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray as _, RecordBatch, StringArray, UInt64Array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::catalog::Session;
use datafusion::common::DFSchema;
use datafusion::error::Result;
use datafusion::logical_expr::Expr;

use crate::facts::CaptureFacts;

/// The columns that the catalog knows the values of: a kernel, or none.
const FUNCTION: &str = "function_id";
/// The name of the same function.
const KERNEL: &str = "kernel";
/// Captures whose functions are looked at together.
const CAPTURES_AT_ONCE: usize = 1000;

/// True for each row that fulfils a condition.
pub(crate) fn fulfilled(state: &dyn Session, condition: &Expr, rows: &RecordBatch) -> Result<Vec<bool>> {
    let schema = DFSchema::try_from(rows.schema())?;
    let condition = state.create_physical_expr(condition.clone(), &schema)?;
    let values = condition.evaluate(rows)?.into_array(rows.num_rows())?;
    Ok(values.as_boolean().iter().map(|value| value == Some(true)).collect())
}

/// True for a condition on nothing but the id or the name of a function, in a table that names functions by id. Rows can have
/// the id of one function and the name of another, which calls it.
pub(crate) fn is_about_functions(condition: &Expr, table: &SchemaRef) -> bool {
    let columns: BTreeSet<&str> = condition.column_refs().iter().map(|column| column.name.as_str()).collect();
    let has_id = table.field_with_name(FUNCTION).is_ok_and(|field| *field.data_type() == DataType::UInt64);
    let is_one = columns.len() == 1 && columns.iter().all(|column| [FUNCTION, KERNEL].contains(column));
    has_id && is_one
}

/// True for each capture with a function that fulfils a condition on functions. A row without function counts as one of
/// every capture, and a capture whose functions are unknown as one that has it.
pub(crate) fn with_function(
    state: &dyn Session,
    condition: &Expr,
    table: &SchemaRef,
    facts: &[CaptureFacts],
) -> Result<Vec<bool>> {
    let mut all = Vec::with_capacity(facts.len());
    for facts in facts.chunks(CAPTURES_AT_ONCE) {
        let (mut owners, mut functions) = (vec![0], vec![None]);
        for (at, facts) in facts.iter().enumerate() {
            let known = facts.contents.iter().flat_map(|contents| contents.functions.iter().flatten());
            for (id, kernel) in known {
                owners.push(at);
                functions.push(Some((*id, kernel.as_str())));
            }
        }
        let values = fulfilled(state, condition, &batch(&functions, table)?)?;
        let is_without = values.first() == Some(&true);
        let mut chosen: Vec<bool> = facts
            .iter()
            .map(|facts| {
                is_without || facts.contents.as_ref().is_none_or(|contents| contents.functions.is_none())
            })
            .collect();
        for (at, value) in owners.into_iter().zip(values).skip(1) {
            if let Some(is_chosen) = chosen.get_mut(at) {
                *is_chosen |= value;
            }
        }
        all.extend(chosen);
    }
    Ok(all)
}

/// Functions as rows, in the types of a table.
fn batch(functions: &[Option<(u64, &str)>], table: &SchemaRef) -> Result<RecordBatch> {
    let ids: ArrayRef =
        Arc::new(functions.iter().map(|function| function.map(|(id, _)| id)).collect::<UInt64Array>());
    let mut columns = vec![(FUNCTION, ids)];
    if let Ok(field) = table.field_with_name(KERNEL) {
        let names = functions.iter().map(|function| function.map(|(_, name)| name));
        let names: ArrayRef = Arc::new(names.collect::<StringArray>());
        columns.push((KERNEL, cast(&names, field.data_type())?));
    }
    let fields: Vec<Field> =
        columns.iter().map(|(name, column)| Field::new(*name, column.data_type().clone(), true)).collect();
    let columns = columns.into_iter().map(|(_, column)| column).collect();
    Ok(RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)?)
}
