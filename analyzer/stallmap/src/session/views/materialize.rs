//! Tables that statements read more than once: computed once, and cached for later statements.
//!
//! DataFusion plans and runs a view again wherever its name occurs, and stallmap's views depend on each other:
//! `finding` reads `python_stack` in more than forty places. Planning takes one thread and most of the time, so tables
//! that do not read each other are planned and computed at the same time.

use std::collections::HashMap;
use std::iter::repeat_n;
use std::sync::Arc;

use datafusion::catalog::TableProvider;
use datafusion::common::tree_node::{TreeNode as _, TreeNodeRecursion};
use datafusion::datasource::source_as_provider;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::logical_expr::{DdlStatement, LogicalPlan};
use datafusion::prelude::SessionContext;
use futures::TryStreamExt as _;
use stallmap_engine::table::DerivedTable;
use tokio::runtime::Handle;
use tokio::task::JoinSet;

use super::inline::{Rows, View, expanded};

/// A view with more rows is computed wherever it is read: memory is for views with many readers, and they are short.
pub(crate) const MOST_KEPT_ROWS: usize = 500_000;
/// Inputs of a union that are computed each for itself.
const LONG_UNION: usize = 3;

/// Computes the views that statements name, with all that these views read more than once.
pub(crate) async fn keep_views(context: &SessionContext, views: Vec<Arc<dyn TableProvider>>) -> Result<()> {
    let plans: Vec<&LogicalPlan> =
        views.iter().filter_map(|view| view.downcast_ref::<View>()).map(View::plan).collect();
    for level in read_again(&[], &views)? {
        keep_all(context, level).await?;
    }
    keep_all(context, parts(&plans)?).await?;
    keep_all(context, views).await
}

/// Computes what a statement reads more than once.
pub(crate) async fn keep_again(context: &SessionContext, plan: &LogicalPlan) -> Result<()> {
    for level in read_again(&[plan], &[])? {
        keep_all(context, level).await?;
    }
    Ok(())
}

/// Computes tables that do not read each other, each on a thread of its own.
async fn keep_all(context: &SessionContext, tables: Vec<Arc<dyn TableProvider>>) -> Result<()> {
    // Without a runtime there is one thread.
    if tables.len() < 2 || Handle::try_current().is_err() {
        for table in tables {
            keep(context.clone(), table).await?;
        }
        return Ok(());
    }
    let mut tasks: JoinSet<Result<()>> =
        tables.into_iter().map(|table| keep(context.clone(), table)).collect();
    while let Some(task) = tasks.join_next().await {
        task.map_err(|error| DataFusionError::External(Box::new(error)))??;
    }
    Ok(())
}

async fn keep(context: SessionContext, table: Arc<dyn TableProvider>) -> Result<()> {
    if let Some(engine) = table.downcast_ref::<DerivedTable>().and_then(DerivedTable::keeper) {
        engine.keep_parts(&context).await
    } else if let Some(view) = table.downcast_ref::<View>() {
        view.keep(async || rows(&context, view.plan().clone()).await).await
    } else {
        Ok(())
    }
}

/// All rows of a plan that reads views, with their memory. None if they are too many to cache.
async fn rows(context: &SessionContext, plan: LogicalPlan) -> Result<Option<Rows>> {
    let memory = MemoryConsumer::new("cached view").register(&context.runtime_env().memory_pool);
    let frame = context.execute_logical_plan(expanded(plan)?).await?;
    let mut stream = frame.execute_stream().await?;
    let (mut batches, mut rows) = (Vec::new(), 0);
    while let Some(batch) = stream.try_next().await? {
        rows += batch.num_rows();
        if rows > MOST_KEPT_ROWS || memory.try_grow(batch.get_array_memory_size()).is_err() {
            return Ok(None);
        }
        batches.push(batch);
    }
    Ok(Some(Rows { batches, memory }))
}

/// The views that long unions in these plans read: one plan for all of them would take one thread.
fn parts(plans: &[&LogicalPlan]) -> Result<Vec<Arc<dyn TableProvider>>> {
    let mut parts = Vec::new();
    for plan in plans {
        plan.apply_with_subqueries(|node| {
            let LogicalPlan::Union(union) = node else { return Ok(TreeNodeRecursion::Continue) };
            if union.inputs.len() >= LONG_UNION {
                for input in &union.inputs {
                    parts.extend(views_of(input)?);
                }
            }
            Ok(TreeNodeRecursion::Jump)
        })?;
    }
    Ok(parts)
}

/// The views that a plan reads itself and that take work.
fn views_of(plan: &LogicalPlan) -> Result<Vec<Arc<dyn TableProvider>>> {
    let mut views = Vec::new();
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node
            && let Ok(provider) = source_as_provider(&scan.source)
            && let Some(view) = provider.downcast_ref::<View>()
            && takes_work(view.plan())?
        {
            views.push(provider);
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(views)
}

/// Views and derived tables that are read more than once by plans, and by statements that read whole views. By level:
/// each after the levels that it reads.
fn read_again(
    plans: &[&LogicalPlan],
    views: &[Arc<dyn TableProvider>],
) -> Result<Vec<Vec<Arc<dyn TableProvider>>>> {
    let mut readings = Readings::default();
    let mut places = Vec::new();
    for plan in plans {
        let reads = readings.of(plan)?;
        places.extend(reads.into_iter().enumerate().flat_map(|(place, count)| repeat_n(place, count)));
    }
    for view in views {
        places.extend(readings.place(Arc::clone(view))?);
    }
    let mut named: Vec<usize> = readings.known.iter().map(|_| 0).collect();
    for place in places {
        named[place] += 1;
    }
    let is_kept = readings.cached(named);
    let mut levels: Vec<Vec<_>> = Vec::new();
    let mut level_of: Vec<usize> = Vec::new();
    for (reading, is_kept) in readings.known.into_iter().zip(&is_kept) {
        let below = reading.reads.iter().enumerate().filter(|(_, count)| **count > 0);
        let level = below.map(|(below, _)| level_of[below]).max().unwrap_or_default();
        if *is_kept {
            levels.resize_with(levels.len().max(level + 1), Vec::new);
            levels[level].push(reading.provider);
        }
        level_of.push(level + usize::from(*is_kept));
    }
    Ok(levels)
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
    /// True for each known table that is to be cached, from the number of reads by the statements themselves.
    fn cached(&self, mut named: Vec<usize>) -> Vec<bool> {
        let mut uses = named.clone();
        let mut is_kept: Vec<bool> = self.known.iter().map(|_| false).collect();
        // Top-down: the number of reads of a view determines that of its sources.
        for (at, reading) in self.known.iter().enumerate().rev() {
            // A derived table is cached for other statements, too, if cached views hide the number of its references.
            is_kept[at] = reading.is_worth && (uses[at] > 1 || reading.is_derived && named[at] > 1);
            let times = if is_kept[at] { 1 } else { uses[at] };
            for (below, count) in reading.reads.iter().enumerate() {
                named[below] = count.saturating_mul(named[at]).saturating_add(named[below]);
                uses[below] = count.saturating_mul(times).saturating_add(uses[below]);
            }
        }
        is_kept
    }

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
            if view.is_kept() || view.causes().is_some() {
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
