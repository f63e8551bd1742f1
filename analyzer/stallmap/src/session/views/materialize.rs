//! Tables that statements read more than once: computed once, and cached for later statements.
//!
//! DataFusion plans and runs a view again wherever its name occurs, and stallmap's views depend on each other:
//! `finding` reads `python_line` more than forty times. Planning takes one thread and most of the time, so tables
//! that do not read each other are planned and computed at the same time.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::iter::repeat_n;
use std::sync::Arc;

use datafusion::catalog::TableProvider;
use datafusion::common::tree_node::{TreeNode as _, TreeNodeRecursion};
use datafusion::datasource::source_as_provider;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::logical_expr::{DdlStatement, LogicalPlan};
use datafusion::physical_plan::execute_stream;
use datafusion::prelude::SessionContext;
use futures::TryStreamExt as _;
use stallmap_engine::table::GrainRows;
use stallmap_tables::collected::{CollectedRows, ViewRows};
use stallmap_tables::provider::source;
use stallmap_tables::tasks::{NextTask, RunningTasks, is_out_of_memory};
use stallmap_tables::work::{SessionWork, WorkTask};
use tokio::runtime::Handle;
use tokio::task::spawn;

use super::inline::InlinedView;
use super::small::{self, FEW_ROWS, physical_plan};

/// Inputs of a union that are computed each for itself.
const LONG_UNION: usize = 3;
/// Tables that are computed at the same time: some of them wait for machine code, or for another's rows.
pub(crate) const TASKS_PER_THREAD: usize = 2;

/// Tables and views by name, planned at the same time. The statement itself reports a name that means nothing.
pub(crate) async fn named(context: &SessionContext, names: &[&str]) -> Result<Vec<Arc<dyn TableProvider>>> {
    let find = |name: &str| {
        let (context, name) = (context.clone(), name.to_owned());
        async move { context.table_provider(name.as_str()).await.ok() }
    };
    let mut found = Vec::new();
    if Handle::try_current().is_ok() {
        let tasks: Vec<_> = names.iter().map(|name| spawn(find(name))).collect();
        for task in tasks {
            found.extend(task.await.map_err(|error| DataFusionError::External(Box::new(error)))?);
        }
    } else {
        for name in names {
            found.extend(find(name).await);
        }
    }
    Ok(found)
}

/// Computes the views that statements name, with all that these views read more than once.
pub(crate) async fn keep_views(context: &SessionContext, views: Vec<Arc<dyn TableProvider>>) -> Result<()> {
    keep_all(context, steps(&[], &views)?).await
}

/// Computes what a statement reads more than once.
pub(crate) async fn keep_again(context: &SessionContext, plan: &LogicalPlan) -> Result<()> {
    keep_all(context, steps(&[plan], &[])?).await
}

/// Computes tables, each as soon as the ones that it reads are cached. Tables that do not read each other are computed
/// at the same time, until memory does not suffice for it: then one after another.
async fn keep_all(context: &SessionContext, steps: Vec<ComputedTable>) -> Result<()> {
    // Without a runtime there is one thread.
    if steps.len() < 2 || Handle::try_current().is_err() {
        for step in steps {
            keep(context.clone(), step.provider, FEW_ROWS).await?;
        }
        return Ok(());
    }
    let config = context.copied_config();
    let threads = config.target_partitions();
    let work = config.get_extension::<SessionWork>().unwrap_or_default();
    let mut waiting: Vec<Option<WorkTask>> = steps.iter().map(|_| Some(work.view())).collect();
    let mut missing: Vec<usize> = steps.iter().map(|step| step.reads.len()).collect();
    let mut ready: BTreeSet<(Reverse<usize>, usize)> = steps
        .iter()
        .enumerate()
        .filter(|(_, step)| step.reads.is_empty())
        .map(|(at, step)| (Reverse(step.height), at))
        .collect();
    let mut tasks = RunningTasks::new(threads * TASKS_PER_THREAD, is_out_of_memory);
    loop {
        while tasks.has_room()
            && let Some((_, at)) = ready.pop_first()
        {
            let others = tasks.count() + ready.len();
            let few = if others >= threads { small::rows_among_others(threads) } else { FEW_ROWS };
            tasks.start(at, keep(context.clone(), Arc::clone(&steps[at].provider), few));
        }
        let done = match tasks.next().await? {
            NextTask::Done(done, computed) => computed.map(|()| done)?,
            NextTask::Again(at) => {
                ready.insert((Reverse(steps[at].height), at));
                continue;
            }
            NextTask::Nothing => return Ok(()),
        };
        waiting[done] = None;
        for (at, step) in steps.iter().enumerate().filter(|(_, step)| step.reads.contains(&done)) {
            missing[at] -= 1;
            if missing[at] == 0 {
                ready.insert((Reverse(step.height), at));
            }
        }
    }
}

async fn keep(context: SessionContext, table: Arc<dyn TableProvider>, few: usize) -> Result<()> {
    if let Some(engine) = source::<GrainRows>(table.as_ref()).and_then(GrainRows::keeper) {
        engine.keep_parts(&context).await
    } else if let Some(view) = table.downcast_ref::<InlinedView>() {
        view.keep(async || rows(&context, view, few).await).await.map_err(|error| {
            if is_out_of_memory(&error) { error.context(format!("view `{}`", view.name())) } else { error }
        })
    } else {
        Ok(())
    }
}

/// All rows of a view, with their memory. None if they are too many to cache. The plan has one partition if it reads
/// `few` rows.
async fn rows(context: &SessionContext, view: &InlinedView, few: usize) -> Result<Option<ViewRows>> {
    let memory = MemoryConsumer::new("cached view").register(&context.runtime_env().memory_pool);
    let mut collected = CollectedRows::new(view.schema(), view.sources(), view.most_cells(), memory);
    let (plan, task) = physical_plan(context, view.plan().clone(), few).await?;
    let mut stream = execute_stream(plan, task)?;
    while let Some(batch) = stream.try_next().await? {
        if !collected.add(&batch)? {
            return Ok(None);
        }
    }
    collected.finish().map(Some)
}

/// The views that long unions in these plans read: one plan for all of them would take one thread.
fn parts(plans: &[&LogicalPlan]) -> Result<Vec<Arc<dyn TableProvider>>> {
    let mut parts = Vec::new();
    for plan in plans {
        plan.apply_with_subqueries(|node| {
            let LogicalPlan::Union(_) = node else { return Ok(TreeNodeRecursion::Continue) };
            let inputs = inputs_of_union(node);
            if inputs.len() >= LONG_UNION {
                for input in inputs {
                    parts.extend(views_of(input)?);
                }
            }
            Ok(TreeNodeRecursion::Jump)
        })?;
    }
    Ok(parts)
}

/// The inputs of a union. SQL makes a union of a union and the last input.
fn inputs_of_union(plan: &LogicalPlan) -> Vec<&LogicalPlan> {
    match plan {
        LogicalPlan::Union(union) => union.inputs.iter().flat_map(|input| inputs_of_union(input)).collect(),
        plan => vec![plan],
    }
}

/// The views that a plan reads itself and that are worth it.
fn views_of(plan: &LogicalPlan) -> Result<Vec<Arc<dyn TableProvider>>> {
    let mut views = Vec::new();
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node
            && let Ok(provider) = source_as_provider(&scan.source)
            && let Some(view) = provider.downcast_ref::<InlinedView>()
            && is_worth(view)?
        {
            views.push(provider);
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(views)
}

/// The tables to compute for plans, and for statements that read whole views: those views, the parts of their long
/// unions, and all that is read more than once. Each is behind the ones that it reads.
fn steps(plans: &[&LogicalPlan], views: &[Arc<dyn TableProvider>]) -> Result<Vec<ComputedTable>> {
    let mut readings = StatementReads::default();
    let mut indexes = Vec::new();
    for plan in plans {
        let reads = readings.views_of(plan)?;
        indexes.extend(reads.into_iter().enumerate().flat_map(|(index, count)| repeat_n(index, count)));
    }
    let named: Vec<&LogicalPlan> =
        views.iter().filter_map(|view| view.downcast_ref::<InlinedView>()).map(InlinedView::plan).collect();
    let (mut chosen, mut others) = (Vec::new(), Vec::new());
    for view in views {
        match readings.index_of(Arc::clone(view))? {
            Some(index) => {
                indexes.push(index);
                chosen.push(index);
            }
            // It has no rows, or they are cached.
            None => others.push(ComputedTable { provider: Arc::clone(view), reads: Vec::new(), height: 0 }),
        }
    }
    for part in parts(&named)? {
        chosen.extend(readings.index_of(part)?);
    }
    let mut steps = readings.steps(&indexes, &chosen);
    steps.extend(others);
    Ok(steps)
}

/// A table to compute.
struct ComputedTable {
    provider: Arc<dyn TableProvider>,
    /// Positions of the steps that it waits for.
    reads: Vec<usize>,
    /// The number of steps in the longest chain that waits for it.
    height: usize,
}

/// True if it takes work to compute a view, and its rows can be cached.
fn is_worth(view: &InlinedView) -> Result<bool> {
    Ok(!view.is_too_long() && has_types(view.plan()) && takes_work(view.plan())?)
}

/// True if all columns have types. A plan for a statement may still give one to NULL.
fn has_types(plan: &LogicalPlan) -> bool {
    plan.schema().fields().iter().all(|field| !field.data_type().is_null())
}

/// Views and derived tables of a statement, each after the ones that it reads.
#[derive(Default)]
struct StatementReads {
    known: Vec<ReadRelation>,
    indexes: HashMap<*const (), usize>,
}

/// One of them.
struct ReadRelation {
    provider: Arc<dyn TableProvider>,
    /// Number of reads of each earlier entry.
    reads: Vec<usize>,
    /// True if it takes work to compute.
    is_worth: bool,
    /// True if it is not a view.
    is_derived: bool,
}

impl StatementReads {
    /// The tables to compute, from the tables that statements name, and those that are computed in any case.
    fn steps(self, indexes: &[usize], chosen: &[usize]) -> Vec<ComputedTable> {
        let is_kept = self.cached(indexes, chosen);
        let mut steps: Vec<ComputedTable> = Vec::new();
        // Per known table, the steps that it waits for, or itself.
        let mut step_of: Vec<BTreeSet<usize>> = Vec::new();
        for (reading, is_kept) in self.known.into_iter().zip(is_kept) {
            let below = reading.reads.iter().enumerate().filter(|(_, count)| **count > 0);
            let reads: BTreeSet<usize> =
                below.flat_map(|(below, _)| step_of[below].iter().copied()).collect();
            if is_kept {
                step_of.push(BTreeSet::from([steps.len()]));
                let reads = reads.into_iter().collect();
                steps.push(ComputedTable { provider: reading.provider, reads, height: 0 });
            } else {
                step_of.push(reads);
            }
        }
        for at in (0..steps.len()).rev() {
            let above = steps[at].height + 1;
            for below in steps[at].reads.clone() {
                steps[below].height = steps[below].height.max(above);
            }
        }
        steps
    }

    /// True for each known table that is to be cached.
    fn cached(&self, indexes: &[usize], chosen: &[usize]) -> Vec<bool> {
        let mut named: Vec<usize> = self.known.iter().map(|_| 0).collect();
        for index in indexes {
            named[*index] += 1;
        }
        let mut uses = named.clone();
        let mut is_kept: Vec<bool> = self.known.iter().map(|_| false).collect();
        for index in chosen {
            is_kept[*index] = true;
        }
        // Top-down: the number of reads of a view determines that of its sources.
        for (at, reading) in self.known.iter().enumerate().rev() {
            // A derived table is cached for other statements, too, if cached views hide the number of its references.
            is_kept[at] |= reading.is_worth && (uses[at] > 1 || reading.is_derived && named[at] > 1);
            let times = if is_kept[at] { 1 } else { uses[at] };
            for (below, count) in reading.reads.iter().enumerate() {
                named[below] = count.saturating_mul(named[at]).saturating_add(named[below]);
                uses[below] = count.saturating_mul(times).saturating_add(uses[below]);
            }
        }
        is_kept
    }

    /// Counts the reads of each known table in a plan, and adds new ones.
    fn views_of(&mut self, plan: &LogicalPlan) -> Result<Vec<usize>> {
        let mut reads = Vec::new();
        plan.apply_with_subqueries(|node| {
            if let LogicalPlan::TableScan(scan) = node
                && let Ok(provider) = source_as_provider(&scan.source)
                && let Some(index) = self.index_of(provider)?
            {
                reads.resize(reads.len().max(index + 1), 0);
                reads[index] += 1;
            }
            Ok(if is_new_view(node) { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })?;
        Ok(reads)
    }

    /// Index of a cacheable table among the known ones.
    fn index_of(&mut self, provider: Arc<dyn TableProvider>) -> Result<Option<usize>> {
        let identity = Arc::as_ptr(&provider).cast();
        if let Some(&index) = self.indexes.get(&identity) {
            return Ok(Some(index));
        }
        let reading = if let Some(view) = provider.downcast_ref::<InlinedView>() {
            if view.is_kept() || view.causes().is_some() {
                return Ok(None);
            }
            let is_worth = is_worth(view)?;
            let reads = self.views_of(view.plan())?;
            ReadRelation { provider, reads, is_worth, is_derived: false }
        } else if source::<GrainRows>(provider.as_ref()).and_then(GrainRows::keeper).is_some() {
            ReadRelation { provider, reads: Vec::new(), is_worth: true, is_derived: true }
        } else {
            return Ok(None);
        };
        self.indexes.insert(identity, self.known.len());
        self.known.push(reading);
        Ok(Some(self.known.len() - 1))
    }
}

/// True if a statement reads nothing: CREATE VIEW. EXPLAIN shows the plan over cached views, as it would run: the plan
/// with every view in each of its places has a hundred thousand nodes.
fn is_new_view(plan: &LogicalPlan) -> bool {
    matches!(plan, LogicalPlan::Ddl(DdlStatement::CreateView(_)))
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
