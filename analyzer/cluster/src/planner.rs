//! The plan of a statement over executors: leaves read captures there, with partial aggregates above them.
//!
//! Joins and orders that stallmap adds to DataFusion stay behind: no executor could read them.

use std::sync::Arc;

use datafusion::error::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionContext;
use datafusion_distributed::{
    DesiredTaskCountEvent, DesiredTaskCountEventResponse, DistributedExt as _, DistributedLeafExec,
    ScaleUpLeafNodeEvent, ScaleUpLeafNodeEventResponse, SessionStateBuilderExt as _, WorkerResolver,
};
use stallmap::session::Session;
use stallmap_fleet::FleetExec;
use url::Url;

use crate::codec::LeafWriter;
use crate::transport::ClusterChannels;

/// Settings of DataFusion 55.2 that only stallmap's own rules make right.
const OFF: [&str; 2] = [
    "datafusion.optimizer.enable_dynamic_filter_pushdown",
    "datafusion.optimizer.enable_join_dynamic_filter_pushdown",
];

/// Executors of one attempt.
pub(crate) struct ChosenExecutors(pub(crate) Vec<Url>);

impl WorkerResolver for ChosenExecutors {
    fn get_urls(&self) -> Result<Vec<Url>> {
        // A plan for one executor would run in the scheduler.
        let times = if self.0.len() == 1 { 2 } else { 1 };
        Ok(self.0.iter().cycle().take(self.0.len() * times).cloned().collect())
    }
}

/// A context that plans for executors what a session would run.
pub(crate) fn context(
    session: &Session,
    executors: ChosenExecutors,
    channels: ClusterChannels,
    leaves: LeafWriter,
) -> Result<SessionContext> {
    let mut builder = SessionStateBuilder::new_from_existing(session.context().state())
        .with_physical_optimizer_rules(PhysicalOptimizer::new().rules);
    *builder.query_planner() = None;
    if let Some(config) = builder.config() {
        let options = config.options_mut();
        OFF.iter().try_for_each(|name| options.set(name, "false"))?;
        options.optimizer.use_statistics_registry = false;
    }
    let state = builder
        .with_distributed_worker_resolver(executors)
        .with_distributed_channel_resolver(channels)
        .with_distributed_user_codec(leaves)
        .with_distributed_desired_task_count_handler(tasks)
        .with_distributed_scale_up_leaf_node_handler(parts)
        .with_distributed_planner()
        .with_distributed_metrics_collection(false)?
        .build();
    Ok(SessionContext::new_with_state(state))
}

/// A leaf could have a task for each capture. The engine limits them to one for each executor.
fn tasks(event: DesiredTaskCountEvent<'_>) -> Option<Result<DesiredTaskCountEventResponse>> {
    let leaf = event.plan.downcast_ref::<FleetExec>()?;
    Some(Ok(DesiredTaskCountEventResponse::desired(leaf.captures_len().max(1))))
}

/// Each task has every so-manieth capture.
fn parts(event: ScaleUpLeafNodeEvent<'_>) -> Option<Result<ScaleUpLeafNodeEventResponse>> {
    let leaf = event.plan.downcast_ref::<FleetExec>()?;
    if event.task_count < 2 {
        return None;
    }
    let most = leaf.captures_len().div_ceil(event.task_count).max(1);
    let partitions = event.session_config.target_partitions().min(most);
    let parts = leaf
        .split(event.task_count, partitions)
        .into_iter()
        .map(|part| Arc::new(part) as Arc<dyn ExecutionPlan>);
    let spread = DistributedLeafExec::try_new(Arc::clone(event.plan), parts);
    Some(spread.map(|spread| ScaleUpLeafNodeEventResponse::new(Arc::new(spread))))
}
