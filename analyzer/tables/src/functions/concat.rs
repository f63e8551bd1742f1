//! The operator `||` of texts and lists as a function: one that has a bound, as all functions that make texts and lists. So
//! have the functions that DataFusion puts for other operators and literals of lists, and for `position`.
//!
//! DataFusion computes the operator of texts itself, and counts no memory for it: a recursive query that doubles a text
//! takes gigabytes in thirty steps. Types and rows are those of the operator.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::DFSchema;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::SessionStateDefaults;
use datafusion::functions::unicode::planner::UnicodeFunctionPlanner;
use datafusion::functions_nested::planner::NestedFunctionPlanner;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::type_coercion::binary::BinaryTypeCoercer;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable as _, Operator, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, Volatility,
};
use datafusion::sql::sqlparser::ast::BinaryOperator;

use crate::functions::bounded::bounded;
use crate::functions::memory::QueryMemory;
use crate::functions::operator::operate;

/// DataFusion's planners of expressions, behind one whose `||` has a bound.
pub fn planners(memory: QueryMemory) -> Vec<Arc<dyn ExprPlanner>> {
    let concat = ScalarUDF::from(ConcatFunction(Signature::user_defined(Volatility::Immutable)));
    let own = ConcatPlanner { concat: Arc::new(bounded(&concat, memory)), memory };
    let mut planners: Vec<Arc<dyn ExprPlanner>> = vec![Arc::new(own)];
    planners.extend(SessionStateDefaults::default_expr_planners());
    planners
}

/// Plans `||` of texts as a call of [`ConcatFunction`], and that of lists as a call with a bound.
#[derive(Debug)]
struct ConcatPlanner {
    concat: Arc<ScalarUDF>,
    memory: QueryMemory,
}

impl ExprPlanner for ConcatPlanner {
    fn plan_binary_op(&self, expr: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        let expr = match self.with_bound(NestedFunctionPlanner.plan_binary_op(expr, schema)?) {
            PlannerResult::Original(expr) if expr.op == BinaryOperator::StringConcat => expr,
            other => return Ok(other),
        };
        let types = [expr.left.get_type(schema)?, expr.right.get_type(schema)?];
        // The planner itself refuses other types.
        if !operand_types(&types).is_ok_and(|types| types.iter().all(is_text)) {
            return Ok(PlannerResult::Original(expr));
        }
        let args = vec![expr.left, expr.right];
        let call = ScalarFunction { func: Arc::clone(&self.concat), args };
        Ok(PlannerResult::Planned(Expr::ScalarFunction(call)))
    }

    fn plan_array_literal(&self, exprs: Vec<Expr>, schema: &DFSchema) -> Result<PlannerResult<Vec<Expr>>> {
        Ok(self.with_bound(NestedFunctionPlanner.plan_array_literal(exprs, schema)?))
    }

    fn plan_position(&self, args: Vec<Expr>) -> Result<PlannerResult<Vec<Expr>>> {
        Ok(self.with_bound(UnicodeFunctionPlanner.plan_position(args)?))
    }
}

impl ConcatPlanner {
    /// A planned call as one with a bound.
    fn with_bound<T>(&self, planned: PlannerResult<T>) -> PlannerResult<T> {
        match planned {
            PlannerResult::Planned(Expr::ScalarFunction(call)) => {
                let func = Arc::new(bounded(&call.func, self.memory));
                PlannerResult::Planned(Expr::ScalarFunction(ScalarFunction { func, args: call.args }))
            }
            other => other,
        }
    }
}

const fn is_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

/// The types that the operator converts its operands to.
fn operand_types(types: &[DataType]) -> Result<Vec<DataType>> {
    let [left, right] = types else { return Err(DataFusionError::Plan("`||` has two operands".to_owned())) };
    let (left, right) = BinaryTypeCoercer::new(left, &Operator::StringConcat, right).get_input_types()?;
    Ok(vec![left, right])
}

/// The operator as a function.
#[derive(Debug, PartialEq, Eq, Hash)]
struct ConcatFunction(Signature);

impl ScalarUDFImpl for ConcatFunction {
    fn name(&self) -> &'static str {
        "||"
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        let names: Vec<String> = args.iter().map(|arg| arg.schema_name().to_string()).collect();
        Ok(names.join(" || "))
    }

    fn signature(&self) -> &Signature {
        &self.0
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        operand_types(types)
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let [left, right] = types else {
            return Err(DataFusionError::Plan("`||` has two operands".to_owned()));
        };
        BinaryTypeCoercer::new(left, &Operator::StringConcat, right).get_result_type()
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        operate(Operator::StringConcat, args)
    }
}

#[cfg(test)]
mod tests {
    use arrow::util::pretty::pretty_format_batches;
    use datafusion::execution::SessionStateBuilder;
    use datafusion::prelude::SessionContext;

    use super::*;

    /// The answer of a session with the function, or with the operator.
    async fn answer(sql: &str, is_bounded: bool) -> Result<String> {
        let mut state = SessionStateBuilder::new_with_default_features();
        if is_bounded {
            state = state.with_expr_planners(planners(QueryMemory::default()));
        }
        let rows = SessionContext::new_with_state(state.build()).sql(sql).await?.collect().await?;
        Ok(pretty_format_batches(&rows)?.to_string())
    }

    #[tokio::test]
    async fn rows_names_and_types_are_those_of_the_operator() {
        let table = "(VALUES ('a', 'b', 1), (NULL, 'c', 2), ('d', NULL, NULL)) t (x, y, n)";
        for columns in [
            "x || y, x || y || x, 'a' || x, x || NULL, n || x, x || (n || y)",
            "arrow_typeof(x || y), arrow_typeof(arrow_cast(x, 'Utf8View') || y), arrow_typeof(arrow_cast(x, 'LargeUtf8') || y)",
            "arrow_cast(x, 'Dictionary(Int32, Utf8)') || y, [1] || [2], [x] || y, y || [x], 'a' || 'b'",
            "count(x || y), max(x || '-' || y)",
        ] {
            let sql = format!("SELECT {columns} FROM {table}");
            assert_eq!(answer(&sql, true).await.unwrap(), answer(&sql, false).await.unwrap(), "{sql}");
        }
        let sql = "SELECT 1 || 2";
        assert_eq!(answer(sql, true).await.is_ok(), answer(sql, false).await.is_ok());
    }

    #[tokio::test]
    async fn what_doubles_without_end_is_refused() {
        for (first, length, name) in [("'a'", "length", "||"), ("[1]", "cardinality", "array_concat")] {
            let sql = format!(
                "WITH RECURSIVE r(s) AS (SELECT {first} UNION ALL SELECT s || s FROM r) SELECT max({length}(s)) FROM r"
            );
            let error = answer(&sql, true).await.unwrap_err().to_string();
            assert!(error.contains(&format!("`{name}` makes more than 256 MiB at once")), "{error}");
        }
    }
}
