//! Guards every scan: captures are bytes from elsewhere. A panic of the Parquet decoder and a value beyond its bound
//! become errors of the query that name the table, as do errors of the decoder and rows in another order than stated.
//! Rows that a scan has read count as work that is done.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::datasource::source::DataSourceExec;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use futures::StreamExt;

use crate::planning::pass::{PassExec, RowPass};
use arrow::array::RecordBatch;
use arrow::error::ArrowError;
use datafusion::datasource::physical_plan::FileScanConfig;
use parquet::errors::ParquetError;
use stallmap_schema::capture::bounds;
use stallmap_schema::capture::source::EntryBytes;
use stallmap_schema::contained::contained_future;

use crate::error::{failed, unreadable};
use crate::order::StreamOrder;
use crate::work::{SessionWork, WorkTask};

/// Words of DataFusion before the error of a condition that the scan computes.
const CONDITION: &str = "Error evaluating filter predicate";

/// The reason of rows in another order than their table's.
const UNSORTED: &str = "its rows are not in its order";

/// Inserts a [`GuardPass`] above each scan, after all other rules.
#[derive(Debug)]
pub struct GuardScans;

impl PhysicalOptimizerRule for GuardScans {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let guard = |plan: Arc<dyn ExecutionPlan>| {
            let Some(scan) = plan.downcast_ref::<DataSourceExec>() else { return Ok(Transformed::no(plan)) };
            let pass = GuardPass { captured: captured(scan) };
            Ok(Transformed::yes(PassExec::over(plan, pass)))
        };
        plan.transform_up(guard).data()
    }

    fn name(&self) -> &'static str {
        "guard_scans"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// A table of a capture that a scan reads.
#[derive(Clone, Debug)]
struct ScannedTable {
    name: String,
    rows: u64,
    bytes: EntryBytes,
    /// The stored column of each column of the scan. None for one that the scan computes, which has no bound.
    columns: Vec<Option<String>>,
}

impl ScannedTable {
    /// An error of the decoder as one of the table. A condition that cannot be computed is the statement's error.
    fn explain(&self, error: DataFusionError) -> DataFusionError {
        let reason = match error.find_root() {
            DataFusionError::ParquetError(cause) => cause.to_string(),
            DataFusionError::ArrowError(cause, _) => match cause.as_ref() {
                ArrowError::ParquetError(reason) => reason.clone(),
                _ => return error,
            },
            _ => return error,
        };
        if reason.contains(CONDITION) { error } else { failed(&self.name, &self.bytes, reason) }
    }
}

/// The table that a scan reads. None if it reads memory.
fn captured(scan: &DataSourceExec) -> Option<ScannedTable> {
    let files = scan.data_source().downcast_ref::<FileScanConfig>()?;
    let file = files.file_groups.first()?.files().first()?;
    let path = file.object_meta.location.as_ref();
    let name = path.strip_prefix("tables/")?.strip_suffix(".parquet")?.to_owned();
    let rows = files.statistics().num_rows.get_value().copied().unwrap_or_default() as u64;
    let bytes = file.extension::<EntryBytes>()?.clone();
    let stored =
        |expression: &Arc<dyn PhysicalExpr>| Some(expression.downcast_ref::<Column>()?.name().to_owned());
    let columns = match files.file_source().projection() {
        Some(projection) => projection.iter().map(|projected| stored(&projected.expr)).collect(),
        None => scan.schema().fields().iter().map(|field| Some(field.name().clone())).collect(),
    };
    Some(ScannedTable { name, rows, bytes, columns })
}

/// Passes its input's batches on. A panic of the input, or a value beyond its bound, ends the query with an error.
#[derive(Debug)]
struct GuardPass {
    captured: Option<ScannedTable>,
}

impl RowPass for GuardPass {
    fn name(&self) -> &'static str {
        "GuardExec"
    }

    fn pass(
        &self,
        scan: &Arc<dyn ExecutionPlan>,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let mut task = self.task(scan, &context);
        let input = scan.execute(partition, context)?;
        let schema = input.schema();
        let (captured, mut row) = (self.captured.clone(), 0);
        let mut order = captured.as_ref().and_then(|_| StreamOrder::from_plan(scan));
        let checked = move |batch: Result<RecordBatch>| {
            let batch = batch.map_err(|error| match &captured {
                Some(captured) => captured.explain(error),
                None => error,
            })?;
            if let Some(ScannedTable { name, columns, .. }) = &captured {
                for (column, values) in columns.iter().zip(batch.columns()) {
                    let Some(column) = column else { continue };
                    bounds::check_column(name, column, values, row)
                        .map_err(|reason| unreadable(name, reason))?;
                }
                if let Some(order) = &mut order
                    && !order.continues(&batch)?
                {
                    return Err(unreadable(name, UNSORTED.to_owned()));
                }
            }
            row += batch.num_rows() as u64;
            if let Some(task) = &mut task {
                task.read(batch.num_rows() as u64);
            }
            Ok(batch)
        };
        let guarded = futures::stream::unfold((Some(input), checked), |(input, mut checked)| async {
            let mut input = input?;
            match contained_future(input.next()).await {
                Ok(None) => None,
                Ok(Some(batch)) => match checked(batch) {
                    Ok(batch) => Some((Ok(batch), (Some(input), checked))),
                    Err(error) => Some((Err(error), (None, checked))),
                },
                Err(panic) => {
                    let error = checked(Err(ParquetError::General(panic).into())).map(drop).err();
                    error.map(|error| (Err(error), (None, checked)))
                }
            }
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, guarded)))
    }
}

impl GuardPass {
    /// The scan of a partition as work. None if its session counts none.
    fn task(&self, scan: &Arc<dyn ExecutionPlan>, context: &TaskContext) -> Option<WorkTask> {
        let work = context.session_config().get_extension::<SessionWork>()?;
        let partitions = scan.output_partitioning().partition_count().max(1);
        Some(work.scan(self.captured.as_ref()?.rows / partitions as u64))
    }
}
