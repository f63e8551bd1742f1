//! Plans that have no rows, whatever their conditions: a capture lacks tables, and views over these need no planning.

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::common::JoinType;
use datafusion::common::tree_node::TreeNode as _;
use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::{Aggregate, EmptyRelation, Expr, LogicalPlan, TableScan};
use stallmap_tables::captured::CapturedTable;

use super::inline::InlinedView;

/// Tables without rows: schema and name, without schema if the plan names none.
pub(super) type EmptyTables = BTreeSet<(String, String)>;

/// The tables whose lack leaves a plan without rows. None if it may have some.
pub(crate) fn causes(plan: &LogicalPlan) -> Option<EmptyTables> {
    match plan {
        LogicalPlan::EmptyRelation(empty) => (!empty.produce_one_row).then(EmptyTables::new),
        LogicalPlan::TableScan(scan) => causes_of_scan(scan),
        LogicalPlan::Projection(_)
        | LogicalPlan::Filter(_)
        | LogicalPlan::Window(_)
        | LogicalPlan::Sort(_)
        | LogicalPlan::Repartition(_)
        | LogicalPlan::SubqueryAlias(_)
        | LogicalPlan::Limit(_)
        | LogicalPlan::Distinct(_)
        | LogicalPlan::Union(_) => all(&plan.inputs()),
        LogicalPlan::Aggregate(aggregate) if is_grouped(aggregate) => causes(&aggregate.input),
        LogicalPlan::Join(join) => match join.join_type {
            JoinType::Inner | JoinType::LeftSemi | JoinType::RightSemi => {
                either(causes(&join.left), causes(&join.right))
            }
            JoinType::Left | JoinType::LeftAnti | JoinType::LeftMark => causes(&join.left),
            JoinType::Right | JoinType::RightAnti | JoinType::RightMark => causes(&join.right),
            JoinType::Full => all(&[&join.left, &join.right]),
        },
        _ => None,
    }
}

/// Tables each of which, without rows, leaves a plan without rows, by name. Tables that are computed are none of them.
pub(crate) fn required(plan: &LogicalPlan) -> BTreeSet<String> {
    match plan {
        LogicalPlan::TableScan(scan) => required_by_scan(scan),
        LogicalPlan::Projection(_)
        | LogicalPlan::Filter(_)
        | LogicalPlan::Window(_)
        | LogicalPlan::Sort(_)
        | LogicalPlan::Repartition(_)
        | LogicalPlan::SubqueryAlias(_)
        | LogicalPlan::Limit(_)
        | LogicalPlan::Distinct(_)
        | LogicalPlan::Union(_) => common(&plan.inputs()),
        LogicalPlan::Aggregate(aggregate) if is_grouped(aggregate) => required(&aggregate.input),
        LogicalPlan::Join(join) => match join.join_type {
            JoinType::Inner | JoinType::LeftSemi | JoinType::RightSemi => {
                &required(&join.left) | &required(&join.right)
            }
            JoinType::Left | JoinType::LeftAnti | JoinType::LeftMark => required(&join.left),
            JoinType::Right | JoinType::RightAnti | JoinType::RightMark => required(&join.right),
            JoinType::Full => common(&[&join.left, &join.right]),
        },
        _ => BTreeSet::new(),
    }
}

/// The tables that every input requires.
fn common(inputs: &[&LogicalPlan]) -> BTreeSet<String> {
    let tables = inputs.iter().map(|input| required(input));
    tables.reduce(|all, input| &all & &input).unwrap_or_default()
}

fn required_by_scan(scan: &TableScan) -> BTreeSet<String> {
    let Ok(provider) = source_as_provider(&scan.source) else { return BTreeSet::new() };
    if let Some(view) = provider.downcast_ref::<InlinedView>() {
        return view.required().clone();
    }
    provider.downcast_ref::<CapturedTable>().map(|table| table.name().to_owned()).into_iter().collect()
}

/// A scan without rows, as a plan under the scan's name. None if there may be rows.
pub(super) fn replaced(scan: &TableScan) -> Option<LogicalPlan> {
    causes_of_scan(scan).map(|_| of_scan(scan))
}

/// A plan without rows in place of a scan.
pub(super) fn of_scan(scan: &TableScan) -> LogicalPlan {
    let schema = Arc::clone(&scan.projected_schema);
    LogicalPlan::EmptyRelation(EmptyRelation { produce_one_row: false, schema })
}

/// The causes of several inputs together. None if one may have rows.
fn all(inputs: &[&LogicalPlan]) -> Option<EmptyTables> {
    inputs.iter().map(|input| causes(input)).try_fold(EmptyTables::new(), |mut all, input| {
        all.extend(input?);
        Some(all)
    })
}

/// The causes of an input that alone leaves a plan without rows, or of both.
fn either(left: Option<EmptyTables>, right: Option<EmptyTables>) -> Option<EmptyTables> {
    match (left, right) {
        (Some(left), Some(right)) => Some(left.into_iter().chain(right).collect()),
        (left, right) => left.or(right),
    }
}

fn causes_of_scan(scan: &TableScan) -> Option<EmptyTables> {
    let provider = source_as_provider(&scan.source).ok()?;
    let schema = || scan.table_name.schema().unwrap_or_default().to_owned();
    if let Some(view) = provider.downcast_ref::<InlinedView>() {
        let tables = view.causes()?;
        return Some(tables.iter().map(|(_, table)| (schema(), table.clone())).collect());
    }
    let table = provider.downcast_ref::<CapturedTable>().filter(|table| table.rows() == 0)?;
    Some(EmptyTables::from([(schema(), table.name().to_owned())]))
}

/// True if an aggregate has one row per group only. One without groups has a row for no rows, and so have grouping sets.
fn is_grouped(aggregate: &Aggregate) -> bool {
    let has_sets = |group: &Expr| group.exists(|part| Ok(matches!(part, Expr::GroupingSet(_))));
    !aggregate.group_expr.is_empty()
        && aggregate.group_expr.iter().all(|group| matches!(has_sets(group), Ok(false)))
}
