//! Words as text where one row's value is taken: `first_value(space)`.
//!
//! Columns of words are dictionaries with keys of 8 bits. DataFusion 55.2 gathers such values one dictionary entry each,
//! and fails on the 257th group or row. As text they are values like any other.

use arrow::datatypes::DataType;
use datafusion::common::DFSchema;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult as _, TreeNode as _, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{AggregateFunction, WindowFunction};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Distinct, DistinctOn, Expr, ExprSchemable as _, LogicalPlan, cast};
use datafusion::optimizer::AnalyzerRule;

/// Functions whose result is the value of one row.
const OF_ONE_ROW: [&str; 6] = ["any_value", "first_value", "last_value", "nth_value", "lag", "lead"];

/// Casts words to text before they are taken from single rows. It runs before types are coerced: that rule brings the
/// schemas of all later steps up to date.
#[derive(Debug)]
pub struct FirstWords;

impl AnalyzerRule for FirstWords {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(read).data()
    }

    fn name(&self) -> &'static str {
        "first_words"
    }
}

fn read(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    match plan {
        LogicalPlan::Distinct(Distinct::On(on)) => first_rows(on).map(Transformed::yes),
        LogicalPlan::Aggregate(_) | LogicalPlan::Window(_) => {
            // Schemas are large.
            if !takes_one_row(&plan)? {
                return Ok(Transformed::no(plan));
            }
            let schema = merge_schema(&plan.inputs());
            let names = NamePreserver::new(&plan);
            plan.map_expressions(|expr| {
                let name = names.save(&expr);
                let read = expr.transform_up(|expr| Ok(taken(expr, &schema)))?;
                Ok(read.update_data(|expr| name.restore(expr)))
            })?
            .map_data(LogicalPlan::recompute_schema)
        }
        plan => Ok(Transformed::no(plan)),
    }
}

/// True if a step has a function of one row's value.
fn takes_one_row(plan: &LogicalPlan) -> Result<bool> {
    let is_one = |expr: &Expr| match expr {
        Expr::AggregateFunction(call) => is_of_one_row(call.func.name()),
        Expr::WindowFunction(call) => is_of_one_row(call.fun.name()),
        _ => false,
    };
    let mut takes = false;
    plan.apply_expressions(|expr| {
        takes |= expr.exists(|expr| Ok(is_one(expr)))?;
        Ok(if takes { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(takes)
}

/// `SELECT DISTINCT ON` takes each column from one row.
fn first_rows(on: DistinctOn) -> Result<LogicalPlan> {
    let schema = on.input.schema();
    let text = |expr: Expr| {
        let (qualifier, field) = expr.to_field(schema)?;
        Ok(match as_text(expr, schema) {
            (expr, true) => expr.alias_qualified(qualifier, field.name()),
            (expr, false) => expr,
        })
    };
    let selected = on.select_expr.into_iter().map(text).collect::<Result<Vec<_>>>()?;
    let on = DistinctOn::try_new(on.on_expr, selected, on.sort_expr, on.input)?;
    Ok(LogicalPlan::Distinct(Distinct::On(on)))
}

/// A function of one row's value, which takes text.
fn taken(expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    match expr {
        Expr::AggregateFunction(AggregateFunction { func, mut params }) if is_of_one_row(func.name()) => {
            let has_changed = first_as_text(&mut params.args, schema);
            let expr = Expr::AggregateFunction(AggregateFunction { func, params });
            Transformed::new_transformed(expr, has_changed)
        }
        Expr::WindowFunction(mut window) if is_of_one_row(window.fun.name()) => {
            let WindowFunction { params, .. } = window.as_mut();
            let has_changed = first_as_text(&mut params.args, schema);
            Transformed::new_transformed(Expr::WindowFunction(window), has_changed)
        }
        expr => Transformed::no(expr),
    }
}

fn is_of_one_row(function: &str) -> bool {
    OF_ONE_ROW.contains(&function)
}

fn first_as_text(arguments: &mut [Expr], schema: &DFSchema) -> bool {
    let Some(first) = arguments.first_mut() else { return false };
    let (text, has_changed) = as_text(first.clone(), schema);
    *first = text;
    has_changed
}

/// An expression as text if it is of words, and whether it is.
fn as_text(expr: Expr, schema: &DFSchema) -> (Expr, bool) {
    match expr.get_type(schema) {
        Ok(DataType::Dictionary(_, value)) => (cast(expr, *value), true),
        _ => (expr, false),
    }
}
