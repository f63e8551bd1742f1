//! An operator of DataFusion as the body of a function.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Field, Schema};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::{ColumnarValue, Operator, ScalarFunctionArgs};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, Column, Literal};

/// The result of an operator for the two arguments of a function.
pub(super) fn operate(operator: Operator, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
    let (mut columns, mut operands): (Vec<ArrayRef>, Vec<Arc<dyn PhysicalExpr>>) = Default::default();
    for arg in args.args {
        operands.push(match arg {
            ColumnarValue::Scalar(one) => Arc::new(Literal::new(one)),
            ColumnarValue::Array(rows) => {
                columns.push(rows);
                Arc::new(Column::new("", columns.len() - 1))
            }
        });
    }
    let [left, right] = <[Arc<dyn PhysicalExpr>; 2]>::try_from(operands)
        .map_err(|_| DataFusionError::Plan(format!("`{operator}` has two operands")))?;
    let fields: Vec<Field> =
        columns.iter().map(|column| Field::new("", column.data_type().clone(), true)).collect();
    let options = RecordBatchOptions::new().with_row_count(Some(args.number_rows));
    let batch = RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options)?;
    BinaryExpr::new(left, operator, right).evaluate(&batch)
}
