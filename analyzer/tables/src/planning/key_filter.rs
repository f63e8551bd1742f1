//! The filter of the keys that a join has collected, for an operator below its other side.
//!
//! `KeysExec` stands between a join and its first input. DataFusion's joins complete such filters, too, but only when
//! all of their partitions run. A join above that has found nothing for a partition does not read it, and the query
//! never ends.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow::array::{Array as _, AsArray as _, RecordBatch, UInt64Array};
use arrow::datatypes::{DataType, SchemaRef, UInt64Type};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, DynamicFilterPhysicalExpr, InListExpr, lit};
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties as _};
use futures::StreamExt as _;

use crate::planning::pass::RowPass;

/// The filter of the rows of a join's second side: those with a key of the first. It passes all rows until the first
/// side has ended, and is complete then.
#[derive(Debug)]
pub(crate) struct KeyFilter {
    /// The key in rows of the first side.
    first_key: Arc<dyn PhysicalExpr>,
    /// The key in rows of the second side, whose schema follows.
    key: Arc<dyn PhysicalExpr>,
    schema: SchemaRef,
    filter: Arc<DynamicFilterPhysicalExpr>,
    seen: Mutex<SeenKeys>,
}

/// The keys and the end of the first side, until now.
#[derive(Debug, Default)]
struct SeenKeys {
    keys: BTreeSet<u64>,
    /// Partitions that have ended.
    ended: usize,
}

impl KeyFilter {
    /// The filter of a join by one key. None if its type is not that of identifiers.
    pub(crate) fn for_join(join: &HashJoinExec) -> Option<Self> {
        let [(first_key, key)] = join.on() else { return None };
        let (first_key, key) = (Arc::clone(first_key), Arc::clone(key));
        let schema = join.right().schema();
        key.data_type(&schema).ok().filter(|kind| *kind == DataType::UInt64)?;
        let filter = Arc::new(DynamicFilterPhysicalExpr::new(vec![Arc::clone(&key)], lit(true)));
        Some(Self { first_key, key, schema, filter, seen: Mutex::default() })
    }

    pub(crate) fn filter(&self) -> &Arc<DynamicFilterPhysicalExpr> {
        &self.filter
    }

    /// No holder can panic between two states, so a poisoned lock is sound.
    fn seen(&self) -> MutexGuard<'_, SeenKeys> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds the keys of rows of the first side.
    fn add(&self, rows: &RecordBatch) -> Result<()> {
        let keys = self.first_key.evaluate(rows)?.into_array(rows.num_rows())?;
        let keys = keys.as_primitive_opt::<UInt64Type>().ok_or_else(|| {
            DataFusionError::Internal(format!("keys of a join have the type {}", keys.data_type()))
        })?;
        let mut seen = self.seen();
        let mut last = None;
        for key in keys.iter().flatten() {
            // Most tables are in the order of launches.
            if last.replace(key) != Some(key) {
                seen.keys.insert(key);
            }
        }
        Ok(())
    }

    /// Counts an ended partition of the first side. The last one completes the filter. Where that fails, it passes all
    /// rows.
    fn end(&self, partitions: usize) {
        let ended = {
            let mut seen = self.seen();
            seen.ended += 1;
            seen.ended
        };
        if ended == partitions {
            self.expr().and_then(|expr| self.filter.update(expr)).unwrap_or_default();
            self.filter.mark_complete();
        }
    }

    /// True for rows with one of the keys. Their range is what statistics of files can decide.
    fn expr(&self) -> Result<Arc<dyn PhysicalExpr>> {
        let keys = &self.seen().keys;
        let (Some(least), Some(most)) = (keys.first(), keys.last()) else { return Ok(lit(false)) };
        let binary = |left: &Arc<dyn PhysicalExpr>, operator, right| {
            Arc::new(BinaryExpr::new(Arc::clone(left), operator, right)) as Arc<dyn PhysicalExpr>
        };
        let above = binary(&self.key, Operator::GtEq, lit(*least));
        let below = binary(&self.key, Operator::LtEq, lit(*most));
        let listed = Arc::new(UInt64Array::from_iter_values(keys.iter().copied()));
        let listed = InListExpr::try_new_from_array(Arc::clone(&self.key), listed, false, &self.schema)?;
        Ok(binary(&binary(&above, Operator::And, below), Operator::And, Arc::new(listed)))
    }
}

/// Passes the rows of a join's first side on, and completes a filter with their keys.
#[derive(Debug)]
pub(crate) struct KeysPass(pub(crate) Arc<KeyFilter>);

impl RowPass for KeysPass {
    fn name(&self) -> &'static str {
        "KeysExec"
    }

    fn line(&self) -> String {
        format!("KeysExec: key={}", self.0.first_key)
    }

    fn expression(&self) -> Option<&Arc<dyn PhysicalExpr>> {
        Some(&self.0.first_key)
    }

    fn pass(
        &self,
        side: &Arc<dyn ExecutionPlan>,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let input = side.execute(partition, context)?;
        let partitions = side.output_partitioning().partition_count();
        let part = OpenPartition { filter: Arc::clone(&self.0), partitions };
        let next = async |(mut input, part): (SendableRecordBatchStream, OpenPartition)| {
            let rows = input.next().await?;
            let rows = rows.and_then(|rows| part.filter.add(&rows).map(|()| rows));
            Some((rows, (input, part)))
        };
        let rows = futures::stream::unfold((input, part), next);
        Ok(Box::pin(RecordBatchStreamAdapter::new(side.schema(), rows)))
    }
}

/// A partition that has not ended. A join that drops it has no use for more rows of either side.
struct OpenPartition {
    filter: Arc<KeyFilter>,
    /// All partitions of the first side.
    partitions: usize,
}

impl Drop for OpenPartition {
    fn drop(&mut self) {
        self.filter.end(self.partitions);
    }
}
