//! Tables that a statement reads more than once: computed once, and cached for later statements.
//!
//! DataFusion plans and runs a view again wherever its name occurs, and stallmap's views depend on each other:
//! `finding` reads `python_stack` in more than forty places.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::catalog::TableProvider;
use datafusion::common::tree_node::{TreeNode as _, TreeNodeRecursion};
use datafusion::datasource::source_as_provider;
use datafusion::error::Result;
use datafusion::logical_expr::{DdlStatement, LogicalPlan};

use super::inline::View;
use stallmap_engine::table::DerivedTable;

/// Views and derived tables referenced more than once, dependencies first.
pub(crate) fn read_again(plan: &LogicalPlan) -> Result<Vec<Arc<dyn TableProvider>>> {
    let mut readings = Readings::default();
    let mut named = readings.of(plan)?;
    named.resize(readings.known.len(), 0);
    let mut uses = named.clone();
    let mut again = Vec::new();
    // Top-down: the number of reads of a view determines that of its sources.
    for (at, reading) in readings.known.into_iter().enumerate().rev() {
        // A derived table is cached for other statements, too, if cached views hide the number of its references.
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

/// Views and derived tables of a statement, each after the ones that it reads.
#[derive(Default)]
struct Readings {
    known: Vec<Reading>,
    places: HashMap<*const (), usize>,
}

/// One of them.
struct Reading {
    provider: Arc<dyn TableProvider>,
    /// Number of reads of each earlier entry.
    reads: Vec<usize>,
    /// True if it takes work to compute.
    is_worth: bool,
    /// True if it is not a view.
    is_derived: bool,
}

impl Readings {
    /// Counts the reads of each known table in a plan, and adds new ones.
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

    /// Position of a cacheable table among the known ones.
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

/// True if a statement does not run its plan: EXPLAIN, CREATE VIEW.
fn is_only_said(plan: &LogicalPlan) -> bool {
    matches!(plan, LogicalPlan::Explain(_) | LogicalPlan::Ddl(DdlStatement::CreateView(_)))
}

/// True if a plan does more than select columns and rows.
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
