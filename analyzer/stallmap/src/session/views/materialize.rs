//! What a statement reads more than once: computed once, and kept for the statements that follow.
//!
//! DataFusion plans and runs a view anew wherever its name stands, and our views stand on each other: `finding` reads
//! `python_stack` in more than forty places.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::catalog::TableProvider;
use datafusion::common::tree_node::{TreeNode as _, TreeNodeRecursion};
use datafusion::datasource::source_as_provider;
use datafusion::error::Result;
use datafusion::logical_expr::{DdlStatement, LogicalPlan};

use super::inline::View;
use stallmap_engine::table::DerivedTable;

/// What a statement reads again and again; what others are made of comes before them.
pub(crate) fn read_again(plan: &LogicalPlan) -> Result<Vec<Arc<dyn TableProvider>>> {
    let mut readings = Readings::default();
    let mut named = readings.of(plan)?;
    named.resize(readings.known.len(), 0);
    let mut uses = named.clone();
    let mut again = Vec::new();
    // From above: how often a view is read says how often that is read of which it is made.
    for (at, reading) in readings.known.into_iter().enumerate().rev() {
        // A derived table is kept for other statements, too, if views that are kept hide how often it is named.
        let is_kept = reading.is_worth && (uses[at] > 1 || reading.is_derived && named[at] > 1);
        let times = if is_kept { 1 } else { uses[at] };
        for (below, count) in reading.reads.into_iter().enumerate() {
            named[below] = count.saturating_mul(named[at]).saturating_add(named[below]);
            uses[below] = count.saturating_mul(times).saturating_add(uses[below]);
        }
        if is_kept {
            again.push(reading.provider);
        }
    }
    again.reverse();
    Ok(again)
}

/// Views and derived tables that a statement reads, those that a view reads before it.
#[derive(Default)]
struct Readings {
    known: Vec<Reading>,
    places: HashMap<*const (), usize>,
}

/// One of them.
struct Reading {
    provider: Arc<dyn TableProvider>,
    /// How often it reads each of those before it.
    reads: Vec<usize>,
    /// Whether it takes work to compute.
    is_worth: bool,
    /// Whether it is no view.
    is_derived: bool,
}

impl Readings {
    /// How often a plan reads each of what is known, and of what it makes known.
    fn of(&mut self, plan: &LogicalPlan) -> Result<Vec<usize>> {
        let mut reads = Vec::new();
        plan.apply_with_subqueries(|node| {
            if let LogicalPlan::TableScan(scan) = node
                && let Ok(provider) = source_as_provider(&scan.source)
                && let Some(place) = self.place(provider)?
            {
                reads.resize(reads.len().max(place + 1), 0);
                reads[place] += 1;
            }
            Ok(if is_only_said(node) { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })?;
        Ok(reads)
    }

    /// Where something that can be kept stands among the known.
    fn place(&mut self, provider: Arc<dyn TableProvider>) -> Result<Option<usize>> {
        let identity = Arc::as_ptr(&provider).cast();
        if let Some(&place) = self.places.get(&identity) {
            return Ok(Some(place));
        }
        let reading = if let Some(view) = provider.downcast_ref::<View>() {
            if view.is_kept() {
                return Ok(None);
            }
            let is_worth = !view.is_too_long() && takes_work(view.plan())?;
            let reads = self.of(view.plan())?;
            Reading { provider, reads, is_worth, is_derived: false }
        } else if provider.downcast_ref::<DerivedTable>().is_some_and(|table| table.keeper().is_some()) {
            Reading { provider, reads: Vec::new(), is_worth: true, is_derived: true }
        } else {
            return Ok(None);
        };
        self.places.insert(identity, self.known.len());
        self.known.push(reading);
        Ok(Some(self.known.len() - 1))
    }
}

/// Whether a statement does not run what it reads: EXPLAIN, CREATE VIEW.
fn is_only_said(plan: &LogicalPlan) -> bool {
    matches!(plan, LogicalPlan::Explain(_) | LogicalPlan::Ddl(DdlStatement::CreateView(_)))
}

/// Whether a plan does more than choose columns and rows.
fn takes_work(plan: &LogicalPlan) -> Result<bool> {
    plan.exists(|node| {
        Ok(matches!(
            node,
            LogicalPlan::Join(_)
                | LogicalPlan::Aggregate(_)
                | LogicalPlan::Window(_)
                | LogicalPlan::Distinct(_)
        ))
    })
}
