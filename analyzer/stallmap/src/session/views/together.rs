//! Analyses of accesses that whole views need: computed in one pass before the views.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use datafusion::catalog::TableProvider;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::datasource::source_as_provider;
use datafusion::error::Result;
use datafusion::logical_expr::LogicalPlan;
use datafusion::prelude::SessionContext;
use stallmap_engine::analyses::{AnalysisKind, AnalysisRows};
use stallmap_engine::table::CaptureEngine;
use stallmap_tables::provider::source;
use tokio::runtime::Handle;

use super::inline::InlinedView;

/// The analyses that views read through all others, by the address of their engine.
#[derive(Default)]
struct NeededAnalyses {
    engines: BTreeMap<usize, (Arc<CaptureEngine>, BTreeSet<AnalysisKind>)>,
    seen: HashSet<*const ()>,
}

/// Accesses that are worth a pass for all analyses: fewer are decoded again while views are planned.
pub(crate) const MANY_ACCESSES: i64 = 4_000_000;

/// Computes the analyses that views read, of captures with so many accesses or more.
pub(crate) async fn keep_analyses(
    context: &SessionContext,
    views: &[Arc<dyn TableProvider>],
    least: i64,
) -> Result<()> {
    // Without a runtime there is one thread.
    let is_worth = |engine: &CaptureEngine| Handle::try_current().is_ok() && engine.accesses() >= least;
    let engines = {
        let mut needed = NeededAnalyses::default();
        views.iter().try_for_each(|view| needed.add(view))?;
        needed.engines
    };
    for (engine, kinds) in engines.into_values().filter(|(engine, _)| is_worth(engine)) {
        engine.keep_analyses(context, &kinds.into_iter().collect::<Vec<_>>()).await?;
    }
    Ok(())
}

impl NeededAnalyses {
    fn add(&mut self, table: &Arc<dyn TableProvider>) -> Result<()> {
        if let Some(analysis) = source::<AnalysisRows>(table.as_ref()) {
            let (engine, kind) = analysis.parts();
            let known = self.engines.entry(Arc::as_ptr(engine).addr());
            known.or_insert_with(|| (Arc::clone(engine), BTreeSet::new())).1.insert(kind);
            return Ok(());
        }
        let Some(view) = table.downcast_ref::<InlinedView>() else { return Ok(()) };
        if !self.seen.insert(Arc::as_ptr(table).cast()) || view.is_kept() || view.causes().is_some() {
            return Ok(());
        }
        view.plan().apply_with_subqueries(|node| {
            if let LogicalPlan::TableScan(scan) = node
                && let Ok(provider) = source_as_provider(&scan.source)
            {
                self.add(&provider)?;
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(())
    }
}
