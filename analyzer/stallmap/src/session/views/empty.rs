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

/// The inputs that decide whether a plan has rows.
enum EmptyingInputs<'a> {
    /// It never has rows.
    Never,
    /// It has none if the scan has none.
    Scan(&'a TableScan),
    /// It has none if every one of these has none.
    Every(Vec<&'a LogicalPlan>),
    /// It has none if one of these has none.
    Either(&'a LogicalPlan, &'a LogicalPlan),
    /// It may have rows without rows of its inputs.
    Unknown,
}

impl<'a> EmptyingInputs<'a> {
    fn from_plan(plan: &'a LogicalPlan) -> Self {
        match plan {
            LogicalPlan::EmptyRelation(empty) if !empty.produce_one_row => Self::Never,
            LogicalPlan::TableScan(scan) => Self::Scan(scan),
            LogicalPlan::Projection(_)
            | LogicalPlan::Filter(_)
            | LogicalPlan::Window(_)
            | LogicalPlan::Sort(_)
            | LogicalPlan::Repartition(_)
            | LogicalPlan::SubqueryAlias(_)
            | LogicalPlan::Limit(_)
            | LogicalPlan::Distinct(_)
            | LogicalPlan::Union(_) => Self::Every(plan.inputs()),
            LogicalPlan::Aggregate(aggregate) if is_grouped(aggregate) => Self::Every(vec![&aggregate.input]),
            LogicalPlan::Join(join) => match join.join_type {
                JoinType::Inner | JoinType::LeftSemi | JoinType::RightSemi => {
                    Self::Either(&join.left, &join.right)
                }
                JoinType::Left | JoinType::LeftAnti | JoinType::LeftMark => Self::Every(vec![&join.left]),
                JoinType::Right | JoinType::RightAnti | JoinType::RightMark => Self::Every(vec![&join.right]),
                JoinType::Full => Self::Every(vec![&join.left, &join.right]),
            },
            _ => Self::Unknown,
        }
    }
}

/// The tables whose lack leaves a plan without rows. None if it may have some.
pub(crate) fn causes(plan: &LogicalPlan) -> Option<EmptyTables> {
    match EmptyingInputs::from_plan(plan) {
        EmptyingInputs::Never => Some(EmptyTables::new()),
        EmptyingInputs::Scan(scan) => causes_of_scan(scan),
        EmptyingInputs::Every(inputs) => all(&inputs),
        EmptyingInputs::Either(left, right) => either(causes(left), causes(right)),
        EmptyingInputs::Unknown => None,
    }
}

/// Tables each of which, without rows, leaves a plan without rows, by name. Tables that are computed are none of them.
pub(crate) fn required(plan: &LogicalPlan) -> BTreeSet<String> {
    match EmptyingInputs::from_plan(plan) {
        EmptyingInputs::Scan(scan) => required_by_scan(scan),
        EmptyingInputs::Every(inputs) => common(&inputs),
        EmptyingInputs::Either(left, right) => &required(left) | &required(right),
        EmptyingInputs::Never | EmptyingInputs::Unknown => BTreeSet::new(),
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
