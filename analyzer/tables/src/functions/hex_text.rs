//! Numbers in hexadecimal as text: `WHERE function_id = '0x1a2b'`.

use arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult as _, TreeNode as _, TreeNodeRecursion};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{Between, InList};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable as _, LogicalPlan, Operator};
use datafusion::optimizer::AnalyzerRule;

/// Puts numbers for texts such as `'0x1a2b'` where they are compared with integers. It runs before types are coerced,
/// which would read such a text as a decimal number and fail.
#[derive(Debug)]
pub struct HexText;

impl AnalyzerRule for HexText {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(read).data()
    }

    fn name(&self) -> &'static str {
        "hex_text"
    }
}

/// Reads the texts of one step of a plan.
fn read(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    // Schemas are large, and nearly no step has such a text.
    let mut has_text = false;
    plan.apply_expressions(|expr| {
        has_text |= expr.exists(|expr| Ok(value(expr).is_some()))?;
        Ok(if has_text { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    if !has_text {
        return Ok(Transformed::no(plan));
    }
    let mut schema = merge_schema(&plan.inputs());
    if let LogicalPlan::TableScan(scan) = &plan {
        let table = DFSchema::try_from_qualified_schema(scan.table_name.clone(), &scan.source.schema())?;
        schema.merge(&table);
    }
    let names = NamePreserver::new(&plan);
    plan.map_expressions(|expr| {
        let name = names.save(&expr);
        let read = expr.transform_up(|expr| Ok(Transformed::yes(compared(expr, &schema))))?;
        Ok(read.update_data(|expr| name.restore(expr)))
    })
}

/// A comparison with numbers for texts; any other expression as it is.
fn compared(expr: Expr, schema: &DFSchema) -> Expr {
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_comparison(op) => {
            let (first, second) = (number(&left, &right, schema), number(&right, &left, schema));
            let (left, right) = (first.map_or(left, Box::new), second.map_or(right, Box::new));
            Expr::BinaryExpr(BinaryExpr { left, op, right })
        }
        Expr::InList(InList { expr, list, negated }) => {
            let list = list.into_iter().map(|text| number(&text, &expr, schema).unwrap_or(text)).collect();
            Expr::InList(InList { expr, list, negated })
        }
        Expr::Between(Between { expr, negated, low, high }) => {
            let (first, last) = (number(&low, &expr, schema), number(&high, &expr, schema));
            let (low, high) = (first.map_or(low, Box::new), last.map_or(high, Box::new));
            Expr::Between(Between { expr, negated, low, high })
        }
        other => other,
    }
}

const fn is_comparison(operator: Operator) -> bool {
    use Operator::{Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq};
    matches!(operator, Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom)
}

/// The number that a text is, where it is compared with an integer.
fn number(text: &Expr, compared: &Expr, schema: &DFSchema) -> Option<Expr> {
    let number = ScalarValue::UInt64(Some(value(text)?));
    let data_type = compared.get_type(schema).ok().filter(DataType::is_integer)?;
    // A number that the column's type cannot hold is compared as it is.
    let fitting = number.cast_to(&data_type).ok().filter(|fitting| !fitting.is_null());
    Some(Expr::Literal(fitting.unwrap_or(number), None))
}

/// The value of a text such as `'0x1a2b'`.
fn value(text: &Expr) -> Option<u64> {
    let Expr::Literal(text, _) = text else { return None };
    let digits = text.try_as_str().flatten()?.strip_prefix("0x")?;
    let is_plain = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    u64::from_str_radix(digits, 16).ok().filter(|_| is_plain)
}
