//! Why a statement has no rows, where views that it reads are stored: these are planned for that only.

use std::collections::BTreeSet;

use datafusion::common::TableReference;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::datasource::source_as_provider;
use datafusion::error::Result;
use datafusion::execution::SessionState;
use datafusion::logical_expr::LogicalPlan;
use futures::future::BoxFuture;

use super::empty;
use super::inline::{InlinedView, plan_of_view};

/// Gives the views that a plan reads the tables that left them without rows. `state` resolves the plan's names, `seen` has
/// the views that are explained.
pub(crate) fn explain<'a>(
    state: SessionState,
    plan: &'a LogicalPlan,
    seen: &'a mut BTreeSet<TableReference>,
) -> BoxFuture<'a, Result<()>> {
    Box::pin(async move {
        let mut views = Vec::new();
        plan.apply_with_subqueries(|node| {
            if let LogicalPlan::TableScan(scan) = node {
                views.push((scan.table_name.clone(), source_as_provider(&scan.source)?));
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        for (name, provider) in views {
            let Some(view) = provider.downcast_ref::<InlinedView>() else { continue };
            let mut state = state.clone();
            let names = &mut state.config_mut().options_mut().catalog;
            let name = name.resolve(&names.default_catalog, &names.default_schema);
            names.default_schema = name.schema.as_ref().to_owned();
            if !seen.insert(name.into()) || view.count().is_some_and(|count| count > 0) {
                continue;
            }
            let stored = match view.stored_statement() {
                Some(statement) => Some(plan_of_view(&state, statement).await?),
                None => None,
            };
            let plan = stored.as_ref().unwrap_or(view.plan());
            explain(state, plan, seen).await?;
            view.explain(empty::causes(plan));
        }
        Ok(())
    })
}
