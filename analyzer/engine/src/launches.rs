//! Analyses of the launches that a join selects.
//!
//! `FROM few f JOIN reuse_distance r ON r.kernel_id = f.kernel_id` reads the accesses of the launches in `few` only. An
//! analysis of a launch needs no other launch, so its rows are those that an analysis of all launches has.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult as _, TreeNode as _, TreeNodeRecursion};
use datafusion::datasource::source::DataSourceExec;
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr as _;
use datafusion::physical_expr::expressions::{DynamicFilterPhysicalExpr, col};
use datafusion::physical_plan::ExecutionPlan;

use super::analyze::AnalyzeExec;

/// An analysis that reads the launches of a filter. None if the plan is no analysis of single launches, or the column is
/// not the launch.
pub fn of_launches(
    plan: &Arc<dyn ExecutionPlan>,
    column: usize,
    filter: &Arc<DynamicFilterPhysicalExpr>,
    config: &ConfigOptions,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some(analysis) = plan.downcast_ref::<AnalyzeExec>() else { return Ok(None) };
    let scan = |input: &Arc<dyn ExecutionPlan>| filtered_scan(input, filter, config);
    Ok(analysis.of_launches(column, filter, scan)?.map(|analysis| Arc::new(analysis) as _))
}

/// A scan of accesses, of the filter's launches.
fn filtered_scan(
    input: &Arc<dyn ExecutionPlan>,
    filter: &Arc<DynamicFilterPhysicalExpr>,
    config: &ConfigOptions,
) -> Result<Arc<dyn ExecutionPlan>> {
    let narrow = |plan: Arc<dyn ExecutionPlan>| {
        let Some(scan) = plan.downcast_ref::<DataSourceExec>() else { return Ok(Transformed::no(plan)) };
        let kernel_id = col("kernel_id", &scan.schema())?;
        let filter = Arc::clone(filter).with_new_children(vec![kernel_id])?;
        let narrow = scan.data_source().try_pushdown_filters(vec![filter], config)?.updated_node;
        let narrow = narrow.map(|source| Arc::new(scan.clone().with_data_source(source)) as _);
        Ok(narrow.map_or_else(
            || Transformed::no(Arc::clone(&plan)),
            |scan| Transformed::new(scan, true, TreeNodeRecursion::Jump),
        ))
    };
    Arc::clone(input).transform_down(narrow).data()
}
