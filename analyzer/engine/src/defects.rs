//! Facts that decide whether accesses are wrong, from the capture's tables and from its code.

use std::sync::Arc;

use crate::fault_facts::{self, FaultFacts, FaultTables};
use arrow::array::Array as _;
use arrow::datatypes::{UInt32Type, UInt64Type};
use datafusion::catalog::{Session, TableProvider};
use datafusion::error::Result;
use datafusion::physical_plan::collect_partitioned;

use super::index::column;
use super::parameters;
use super::races::CodeBarriers;
use super::table::CaptureEngine;

impl CaptureEngine {
    /// Facts that decide whether accesses are wrong.
    pub(super) fn fault_facts(&self) -> Result<Arc<FaultFacts>> {
        let [_, _, op, _, storage, _, allocation] = &self.sources;
        let tables = FaultTables {
            op: op.read(&fault_facts::OP)?,
            storage: storage.read(&fault_facts::STORAGE)?,
            allocation: allocation.read(&fault_facts::ALLOCATION)?,
            launch_parameter: self.parameter.read(&parameters::COLUMNS)?,
        };
        Ok(Arc::new(FaultFacts::new(&tables)?))
    }

    /// Names the table `barrier_step` of the capture's code.
    pub fn set_code(&self, barrier_step: Arc<dyn TableProvider>) {
        self.code.get_or_init(|| barrier_step);
    }

    /// Barriers in the code. None before they are read.
    pub(super) fn barriers(&self) -> Arc<CodeBarriers> {
        self.barriers.get().cloned().unwrap_or_default()
    }

    /// Reads the barriers in the code.
    pub(super) async fn read_barriers(&self, state: &dyn Session) -> Result<()> {
        let read = async || {
            let Some(table) = self.code.get() else { return Ok(Arc::default()) };
            let plan = table.scan(state, None, &[], None).await?;
            let mut barriers = CodeBarriers::new();
            for batch in collect_partitioned(plan, state.task_ctx()).await?.iter().flatten() {
                let functions = column::<UInt64Type>(batch, "function_id")?;
                let (pcs, nexts) =
                    (column::<UInt32Type>(batch, "pc")?, column::<UInt32Type>(batch, "next_pc")?);
                let counts = column::<UInt32Type>(batch, "barrier_count")?;
                for row in 0..batch.num_rows() {
                    let steps = barriers.entry(functions.value(row)).or_default();
                    if counts.is_valid(row) {
                        let from = pcs.is_valid(row).then(|| pcs.value(row));
                        steps.insert((from, nexts.value(row)), counts.value(row));
                    }
                }
            }
            Ok(Arc::new(barriers))
        };
        self.barriers.get_or_try_init(read).await.map(|_| ())
    }
}
