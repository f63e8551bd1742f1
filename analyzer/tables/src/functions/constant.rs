//! Constants that are too large for each row of a batch to have a copy.
//!
//! DataFusion copies a constant once for each row where an operator needs rows: `SELECT pc, repeat('x', 4000000)` takes 32 GB
//! for 8,192 rows, which nothing reserves.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNode as _, TreeNodeRecursion};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{
    ColumnarValue, Expr, LogicalPlan, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

use crate::functions::bounded::MAX_BYTES;

/// Bytes of a constant that a batch of DataFusion's size may hold for each row.
const LARGE_BYTES: usize = 32 << 10;

/// Gives large constants a bound. Runs after the rules that compute constants.
#[derive(Debug)]
pub struct LargeConstants {
    function: Arc<ScalarUDF>,
}

impl Default for LargeConstants {
    fn default() -> Self {
        let signature = Signature::any(1, Volatility::Volatile);
        Self { function: Arc::new(ScalarUDF::from(ConstantFunction { signature })) }
    }
}

impl OptimizerRule for LargeConstants {
    fn name(&self) -> &'static str {
        "large_constants"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::TopDown)
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        if !matches!(plan, LogicalPlan::Projection(_) | LogicalPlan::Aggregate(_) | LogicalPlan::Window(_)) {
            return Ok(Transformed::no(plan));
        }
        let names = NamePreserver::new(&plan);
        plan.map_expressions(|expr| {
            let name = names.save(&expr);
            Ok(expr.transform_down(|expr| Ok(self.bound(expr)))?.update_data(|expr| name.restore(expr)))
        })
    }
}

impl LargeConstants {
    fn bound(&self, expr: Expr) -> Transformed<Expr> {
        match expr {
            Expr::Literal(ref value, _) if value.size() > LARGE_BYTES => {
                let call = self.function.call(vec![expr]);
                Transformed::new(call, true, TreeNodeRecursion::Jump)
            }
            Expr::ScalarFunction(ref call) if call.func == self.function => {
                Transformed::new(expr, false, TreeNodeRecursion::Jump)
            }
            other => Transformed::no(other),
        }
    }
}

/// Gives its argument back, a constant, if each row can have it.
#[derive(Debug, PartialEq, Eq, Hash)]
struct ConstantFunction {
    signature: Signature,
}

impl ScalarUDFImpl for ConstantFunction {
    fn name(&self) -> &'static str {
        "large_constant"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        types.first().cloned().ok_or_else(|| DataFusionError::Internal("a constant has a type".into()))
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let value = args.args.pop();
        let value = value.ok_or_else(|| DataFusionError::Internal("a constant has a value".into()))?;
        if let ColumnarValue::Scalar(constant) = &value
            && (constant.size() as u64).saturating_mul(args.number_rows as u64) > MAX_BYTES
        {
            let (bytes, rows, most) = (constant.size(), args.number_rows, MAX_BYTES >> 20);
            let reason = format!(
                "a constant of {bytes} bytes in {rows} rows makes more than {most} MiB at once: shorten it, or select fewer rows"
            );
            return Err(DataFusionError::Execution(reason));
        }
        Ok(value)
    }
}
