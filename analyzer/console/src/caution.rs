//! Notes on statements whose rows are right, but easily taken for something else.

use datafusion::common::DFSchema;
use datafusion::common::tree_node::{TreeNode as _, TreeNodeRecursion};
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable as _, LogicalPlan, Operator};
use stallmap::session::Session;
use stallmap::session::every::EVERY;

use crate::output;

/// Logs what a reader of a statement's rows has to know, to standard error.
pub async fn note(session: &Session, sql: &str) {
    let Ok(plan) = session.plan(sql).await else { return };
    if divides_integers(&plan) {
        output::note("note: an integer divided by an integer is an integer: write 1.0 * a / b for decimals");
    }
    if divides_mixed(&plan) {
        output::note(
            "note: an unsigned integer divided by a signed one has few decimals: write CAST(a AS DOUBLE) / b for all of them, or \
             CAST(a AS BIGINT) / b for whole numbers",
        );
    }
    if reads(&plan, "pc_sample") && reads(&plan, "kernel_name") && !reads(&plan, "launch") {
        output::note(
            "note: `function_id` of `pc_sample` may be a function that a kernel calls: join `launch` by `kernel_id` for the kernel",
        );
    }
    if reads(&plan, "pc_sample") && !reads(&plan, "run") && has_rows(session, "replay") {
        output::note(
            "note: `pc_sample` holds the samples of replays, too: `sample` counts each launch once, at one scale",
        );
    }
}

/// Logs which of several captures a statement reads that names none.
pub async fn note_capture(session: &Session, sql: &str) {
    let [first, second, ..] = session.captures() else { return };
    let Ok(plan) = session.plan(sql).await else { return };
    let (tables, views) = (session.tables(), session.library().unwrap_or_default());
    let is_captured = |name: &str| {
        tables.iter().any(|table| table.name == name) || views.iter().any(|view| view.name == name)
    };
    if let Some(table) = unnamed_table(&plan, is_captured) {
        let (first, second) = (&first.name, &second.name);
        output::note(format_args!(
            "note: `{table}` is that of `{first}`, the first capture: write {second}.{table}, or every.{table} for all"
        ));
    }
}

/// The first table of a capture that a statement reads without the capture's name. Functions, and tables that the reader
/// created, belong to no capture.
fn unnamed_table(plan: &LogicalPlan, is_captured: impl Fn(&str) -> bool) -> Option<String> {
    let mut found = None;
    let visited = plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node
            && scan.table_name.schema().is_none()
            && is_captured(scan.table_name.table())
        {
            found.get_or_insert_with(|| scan.table_name.table().to_owned());
        }
        // Behind `every.launch` are the tables of all captures.
        let is_of_all =
            matches!(node, LogicalPlan::SubqueryAlias(alias) if alias.alias.schema() == Some(EVERY));
        Ok(if is_of_all { TreeNodeRecursion::Jump } else { TreeNodeRecursion::Continue })
    });
    visited.ok().and(found)
}

/// True if the statement itself, and not a view that it reads, divides integers.
fn divides_integers(plan: &LogicalPlan) -> bool {
    divides(plan, is_integer_division)
}

/// True if it divides an unsigned integer of 64 bits by a signed one, or the reverse: both fit in a decimal only.
fn divides_mixed(plan: &LogicalPlan) -> bool {
    divides(plan, is_mixed_division)
}

fn divides(plan: &LogicalPlan, is_such: fn(&Expr, &DFSchema) -> bool) -> bool {
    let mut is_found = false;
    let visited = plan.apply_with_subqueries(|node| {
        let inputs = node.inputs();
        let schema = inputs.iter().map(|input| input.schema().as_ref()).next();
        let Some(schema) = schema else { return Ok(TreeNodeRecursion::Continue) };
        for expression in node.expressions() {
            expression.apply(|part| {
                is_found |= is_such(part, schema);
                Ok(TreeNodeRecursion::Continue)
            })?;
        }
        Ok(TreeNodeRecursion::Continue)
    });
    visited.is_ok() && is_found
}

fn is_integer_division(expression: &Expr, schema: &DFSchema) -> bool {
    let Expr::BinaryExpr(BinaryExpr { op: Operator::Divide, right, .. }) = expression else { return false };
    // A constant divisor is mostly a unit, as in bytes / 1024.
    let is_unit = matches!(right.as_ref(), Expr::Literal(..));
    !is_unit && expression.get_type(schema).is_ok_and(|data_type| data_type.is_integer())
}

fn is_mixed_division(expression: &Expr, schema: &DFSchema) -> bool {
    let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Divide, right }) = expression else { return false };
    let types = (left.get_type(schema), right.get_type(schema));
    let (Ok(left), Ok(right)) = types else { return false };
    left.is_integer()
        && right.is_integer()
        && left.is_unsigned_integer() != right.is_unsigned_integer()
        && !expression.get_type(schema).is_ok_and(|data_type| data_type.is_integer())
}

/// True if the statement itself reads a table.
fn reads(plan: &LogicalPlan, name: &str) -> bool {
    let mut is_read = false;
    let visited = plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node {
            is_read |= scan.table_name.table() == name;
        }
        Ok(TreeNodeRecursion::Continue)
    });
    visited.is_ok() && is_read
}

fn has_rows(session: &Session, name: &str) -> bool {
    session.tables().iter().any(|table| table.name == name && table.rows > 0)
}
