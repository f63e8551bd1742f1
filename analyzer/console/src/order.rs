//! Rows in a fixed order: the statement's own, else the largest first. Ties are broken by the other columns.

use arrow::array::RecordBatch;
use datafusion::common::Column;
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, LogicalPlan, Sort, SortExpr};
use datafusion::prelude::DataFrame;
use stallmap::session::Session;

use crate::exit::Outcome;
use crate::explain::explain;

/// Rows, and the order that they are in.
pub struct OrderedRows {
    /// The rows.
    pub rows: Vec<RecordBatch>,
    /// The order in words, as in `by samples, descending`. Empty if the rows have no order of their own.
    pub order: String,
}

/// The first rows of a statement in a fixed order. Without a limit all.
///
/// # Errors
/// Fails if the statement fails.
pub async fn ordered(session: &Session, statement: &str, limit: Option<usize>) -> Outcome<OrderedRows> {
    let fail = |error| explain(error, Some(session));
    let frame = session.sql(statement).await.map_err(fail)?;
    let keys = keys(&frame);
    let order = keys.first().map(|key| words(&frame, key)).unwrap_or_default();
    let frame = if keys.is_empty() { Ok(frame) } else { sorted(frame, keys) };
    let frame = frame.and_then(|frame| match limit {
        Some(_) => frame.limit(0, limit),
        None => Ok(frame),
    });
    let frame = frame.map_err(|error| fail(error.into()))?;
    let rows = frame.collect().await.map_err(|error| fail(error.into()))?;
    Ok(OrderedRows { rows, order })
}

/// The rows by these keys. A sort of the statement gets them in place of its own: a second one above it would look for
/// columns with the text of an expression.
fn sorted(frame: DataFrame, keys: Vec<SortExpr>) -> Result<DataFrame> {
    match frame.into_parts() {
        (state, LogicalPlan::Sort(sort)) if sort.fetch.is_none() => {
            Ok(DataFrame::new(state, LogicalPlan::Sort(Sort { expr: keys, ..sort })))
        }
        (state, plan) => DataFrame::new(state, plan).sort(keys),
    }
}

/// The statement's keys, else its first measure, then every other column. None if the statement sorts by something that
/// its rows do not have.
fn keys(frame: &DataFrame) -> Vec<SortExpr> {
    let mut keys: Vec<SortExpr> = match frame.logical_plan() {
        LogicalPlan::Sort(sort) if sort.fetch.is_none() => sort.expr.clone(),
        plan if is_sorted(plan) => return Vec::new(),
        _ => measure(frame).map(|column| Expr::Column(column).sort(false, false)).into_iter().collect(),
    };
    let columns = frame.schema().iter().filter(|(_, field)| !field.data_type().is_nested());
    let columns: Vec<Expr> = columns.map(|column| Expr::Column(Column::from(column))).collect();
    for column in columns {
        if !keys.iter().any(|key| key.expr == column) {
            keys.push(column.sort(true, false));
        }
    }
    keys
}

fn is_sorted(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Sort(_) => true,
        // A limit preserves the order. Columns may be omitted after the sort.
        LogicalPlan::Limit(_) | LogicalPlan::Projection(_) => plan.inputs().into_iter().any(is_sorted),
        _ => false,
    }
}

/// The first column that measures something: a number that is no identity.
fn measure(frame: &DataFrame) -> Option<Column> {
    let is_identity = |name: &str| name == "pc" || name == "ordinal" || name.ends_with("_id");
    let mut columns = frame.schema().iter();
    let found = columns.find(|(_, field)| field.data_type().is_numeric() && !is_identity(field.name()));
    found.map(Column::from)
}

/// A key in words, if it is a column of the rows.
fn words(frame: &DataFrame, key: &SortExpr) -> String {
    let Expr::Column(column) = &key.expr else { return String::new() };
    let is_shown = frame.schema().fields().iter().any(|field| *field.name() == column.name);
    let direction = if key.asc { "ascending" } else { "descending" };
    if is_shown { format!("by {}, {direction}", column.name) } else { String::new() }
}
