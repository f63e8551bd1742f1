//! A bound on the expressions of a plan, with all that the optimizer makes of them.
//!
//! A filter moves down through the SELECTs below it, and takes the expressions of the columns that it reads along: with
//! `SELECT a + a AS a` 24 times within each other, it has 16 million of them. `coalesce(x, 1)` becomes a CASE that has x twice,
//! so 24 of them within each other have x as often. Here the sizes of these expressions are computed from those of their
//! parts, without making them.

use std::collections::HashMap;
use std::ptr::from_ref;

use datafusion::common::DFSchema;
use datafusion::common::tree_node::{TreeNode as _, TreeNodeRecursion};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::{Expr, LogicalPlan};

use crate::planning::bounds::extent::subquery;

/// Most parts of all expressions of a plan.
const MAX_PARTS: u64 = 200_000;
/// Functions that the optimizer writes as a CASE of their arguments, each in a condition and in a result.
const TWICE: [&str; 6] = ["coalesce", "ifnull", "nullif", "nvl", "nvl2", "greatest"];
/// A list of so many values becomes a comparison with each.
const SHORT_LIST: usize = 3;
/// A CASE with so many conditions becomes a combination of them.
const SHORT_CASE: usize = 3;

/// Fails for a plan whose expressions would become too large.
pub fn check(plan: &LogicalPlan) -> Result<()> {
    let parts = PlanGrowth::default().parts_of(plan)?;
    if parts <= MAX_PARTS {
        return Ok(());
    }
    Err(DataFusionError::Plan(format!(
        "the expressions of the statement have {parts} parts, each column counted with the expression that computes it, and \
         the most are {MAX_PARTS}: name a column once in an expression, and filter where it is computed"
    )))
}

/// A step of a plan.
struct PlanStep {
    /// Parts of all expressions in it and below it.
    parts: u64,
    /// Parts of the expression of each column, down to a step that no filter passes.
    columns: Vec<u64>,
}

/// The known steps. Plans share some.
#[derive(Default)]
struct PlanGrowth(HashMap<*const LogicalPlan, PlanStep>);

impl PlanGrowth {
    /// The parts of the expressions of a plan.
    fn parts_of(&mut self, plan: &LogicalPlan) -> Result<u64> {
        let mut waiting = vec![(plan, false)];
        while let Some((node, are_inputs_known)) = waiting.pop() {
            if self.0.contains_key(&from_ref(node)) {
                continue;
            }
            if are_inputs_known {
                let step = self.step(node)?;
                self.0.insert(from_ref(node), step);
            } else {
                waiting.push((node, true));
                waiting.extend(node.inputs().into_iter().map(|input| (input, false)));
            }
        }
        Ok(self.0.get(&from_ref(plan)).map_or(0, |step| step.parts))
    }

    /// A step whose inputs are known.
    fn step(&mut self, node: &LogicalPlan) -> Result<PlanStep> {
        let inputs = node.inputs();
        let below: Vec<&PlanStep> = inputs.iter().filter_map(|input| self.0.get(&from_ref(*input))).collect();
        let mut parts = below.iter().fold(0_u64, |sum, step| sum.saturating_add(step.parts));
        let columns: Vec<u64> = below.iter().flat_map(|step| step.columns.iter().copied()).collect();
        let schemas: Vec<&DFSchema> = inputs.iter().map(|input| input.schema().as_ref()).collect();
        let read = ColumnReads { schemas, columns: &columns };
        // Only a condition takes the expressions of its columns along.
        let is_condition = matches!(node, LogicalPlan::Filter(_) | LogicalPlan::Join(_));
        let (mut subqueries, mut own) = (Vec::new(), Vec::new());
        node.apply_expressions(|expr| {
            let whole = read.parts(expr);
            own.push(whole);
            parts =
                parts.saturating_add(if is_condition { whole } else { ColumnReads::default().parts(expr) });
            expr.apply(|part| {
                subqueries.extend(subquery(part));
                Ok(TreeNodeRecursion::Continue)
            })
        })?;
        let columns = columns_of(node, &own, columns);
        for plan in subqueries {
            parts = parts.saturating_add(self.parts_of(&plan)?);
        }
        Ok(PlanStep { parts, columns })
    }
}

/// The parts of the expressions of a step's columns, from those of its own expressions and of its input's columns.
fn columns_of(node: &LogicalPlan, own: &[u64], below: Vec<u64>) -> Vec<u64> {
    let width = node.schema().fields().len();
    let is_passed = |columns: &[u64]| columns.len() == width;
    match node {
        LogicalPlan::Projection(_) if is_passed(own) => own.to_vec(),
        // Groups, then aggregates, which no filter passes.
        LogicalPlan::Aggregate(aggregate) => {
            let groups = aggregate.group_expr.len().min(own.len());
            let mut columns = own[..groups].to_vec();
            columns.resize(width, 1);
            columns
        }
        // Columns of the input, then windows, which no filter passes.
        LogicalPlan::Window(_) => {
            let mut columns = below;
            columns.resize(width, 1);
            columns
        }
        // The same column of all inputs.
        LogicalPlan::Union(_) if width > 0 => {
            let mut columns = vec![1; width];
            for (at, parts) in below.into_iter().enumerate() {
                let column = &mut columns[at % width];
                *column = (*column).max(parts);
            }
            columns
        }
        _ if is_passed(&below) => below,
        // A join that has the rows of one side, and steps that make rows.
        LogicalPlan::Join(_) => vec![below.into_iter().max().unwrap_or(1); width],
        _ => vec![1; width],
    }
}

/// The columns that an expression reads, with the parts of their expressions.
#[derive(Default)]
struct ColumnReads<'a> {
    schemas: Vec<&'a DFSchema>,
    columns: &'a [u64],
}

impl ColumnReads<'_> {
    /// The parts of an expression, as the optimizer may write it.
    fn parts(&self, expr: &Expr) -> u64 {
        let times = |times: u64, expr: &Expr| self.parts(expr).saturating_mul(times);
        let sum = |parts: &mut dyn Iterator<Item = u64>| parts.fold(1, u64::saturating_add);
        match expr {
            Expr::Column(column) => self.column(|schema| schema.maybe_index_of_column(column)),
            Expr::Between(between) => {
                sum(&mut [times(2, &between.expr), self.parts(&between.low), self.parts(&between.high)]
                    .into_iter())
            }
            Expr::ScalarFunction(call) if TWICE.contains(&call.name()) => {
                sum(&mut call.args.iter().map(|arg| times(2, arg)))
            }
            Expr::InList(list) if list.list.len() <= SHORT_LIST => {
                let values = list.list.iter().map(|value| self.parts(value));
                sum(&mut values.chain([times(list.list.len() as u64, &list.expr)]))
            }
            Expr::Case(case) => {
                let count = if case.when_then_expr.len() < SHORT_CASE { 2 } else { 1 };
                let branches = case.when_then_expr.iter();
                let branches =
                    branches.map(|(when, then)| times(count, when).saturating_add(self.parts(then)));
                let others = case.expr.iter().chain(&case.else_expr).map(|expr| self.parts(expr));
                sum(&mut branches.chain(others))
            }
            expr => {
                let mut all = 1_u64;
                let visited = expr.apply_children(|child| {
                    all = all.saturating_add(self.parts(child));
                    Ok(TreeNodeRecursion::Continue)
                });
                // A visit that never fails.
                drop(visited);
                all
            }
        }
    }

    /// The parts of a column's expression.
    fn column(&self, find: impl Fn(&DFSchema) -> Option<usize>) -> u64 {
        let mut first = 0;
        for schema in &self.schemas {
            if let Some(at) = find(schema) {
                return self.columns.get(first + at).copied().unwrap_or(1);
            }
            first += schema.fields().len();
        }
        1
    }
}

#[cfg(test)]
mod tests {
    use datafusion::prelude::SessionContext;

    use super::*;

    async fn checked(sql: &str) -> Result<()> {
        let context = SessionContext::new();
        context.sql("CREATE TABLE t (a BIGINT, b BOOLEAN)").await.unwrap();
        check(&context.state().create_logical_plan(sql).await.unwrap())
    }

    fn nested(depth: usize, first: &str, level: impl Fn(String) -> String) -> String {
        (0..depth).fold(first.to_owned(), |inner, _| level(inner))
    }

    /// Statements with so many levels, each of which doubles an expression.
    fn doubling(depth: usize) -> [String; 6] {
        let chain = |rest: &str| {
            let next = |at: usize| format!(", t{} AS (SELECT a + a AS a FROM t{at}{rest})", at + 1);
            let selects = (0..depth).map(next).collect::<Vec<_>>().concat();
            format!("WITH t0 AS (SELECT a FROM t){selects}, last AS (SELECT * FROM t{depth})")
        };
        let (selects, groups) = (chain(""), chain(" GROUP BY a + a"));
        [
            format!("{selects} SELECT * FROM last WHERE a > 1"),
            format!("{groups} SELECT * FROM last WHERE a > 1"),
            format!("{selects} SELECT * FROM last JOIN t ON last.a = t.a"),
            format!("{selects} SELECT (SELECT max(a) FROM last WHERE a > 1)"),
            format!("SELECT {} FROM t", nested(depth, "a", |inner| format!("coalesce({inner}, 1)"))),
            format!(
                "SELECT {} FROM t",
                nested(depth, "b", |inner| format!("CASE WHEN {inner} THEN b ELSE NOT b END"))
            ),
        ]
    }

    #[tokio::test]
    async fn expressions_that_double_are_refused() {
        for sql in doubling(20) {
            let error = checked(&sql).await.unwrap_err().to_string();
            assert!(error.contains("the expressions of the statement have"), "{sql}: {error}");
        }
        for sql in doubling(5) {
            checked(&sql).await.unwrap();
        }
    }

    #[tokio::test]
    async fn steps_that_no_filter_passes_end_the_growth() {
        let level = |sql| format!("SELECT sum(a) + max(a) AS a FROM ({sql}) GROUP BY a");
        let sql = nested(15, "SELECT a FROM t", level);
        checked(&format!("SELECT * FROM ({sql}) WHERE a > 1")).await.unwrap();
    }
}
