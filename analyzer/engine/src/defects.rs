//! Facts that decide whether accesses are wrong, from the capture's tables and from its code.

use std::sync::Arc;

use crate::fault_facts::{self, CodePointers, FaultFacts, FaultTables};
use crate::memory::epochs::{AccessStep, GroupStep};
use arrow::array::{Array as _, AsArray as _, BooleanArray, RecordBatch};
use arrow::datatypes::{UInt32Type, UInt64Type};
use datafusion::catalog::{Session, TableProvider};
use datafusion::error::Result;
use datafusion::physical_plan::collect_partitioned;

use super::index::{column, wrong};
use super::parameters;
use super::races::CodeBarriers;
use super::table::CaptureEngine;

/// Facts of a capture's code that decide whether accesses are wrong.
#[derive(Debug, Default)]
pub(super) struct CodeFacts {
    /// Barriers between accesses to shared memory.
    pub(super) barriers: CodeBarriers,
    /// Pointers from which addresses are computed.
    pub(super) pointers: CodePointers,
}

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

    /// Names the tables `barrier_step` and `access_pointer_use` of the capture's code.
    pub fn set_code(&self, tables: [Arc<dyn TableProvider>; 2]) {
        self.code.get_or_init(|| tables);
    }

    /// Facts of the code. None before they are read.
    pub(super) fn code_facts(&self) -> Arc<CodeFacts> {
        self.code_facts.get().cloned().unwrap_or_default()
    }

    /// Reads the facts of the code.
    pub(super) async fn read_code(&self, state: &dyn Session) -> Result<()> {
        let read = async || {
            let Some([steps, pointers]) = self.code.get() else { return Ok(Arc::default()) };
            let barriers = barriers(&rows(steps, state).await?)?;
            Ok(Arc::new(CodeFacts { barriers, pointers: self::pointers(&rows(pointers, state).await?)? }))
        };
        self.code_facts.get_or_try_init(read).await.map(|_| ())
    }
}

async fn rows(table: &Arc<dyn TableProvider>, state: &dyn Session) -> Result<Vec<RecordBatch>> {
    let plan = table.scan(state, None, &[], None).await?;
    Ok(collect_partitioned(plan, state.task_ctx()).await?.into_iter().flatten().collect())
}

fn barriers(batches: &[RecordBatch]) -> Result<CodeBarriers> {
    let mut barriers = CodeBarriers::new();
    for batch in batches {
        let functions = column::<UInt64Type>(batch, "function_id")?;
        let (pcs, nexts) = (column::<UInt32Type>(batch, "pc")?, column::<UInt32Type>(batch, "next_pc")?);
        let number = |name| column::<UInt32Type>(batch, name);
        let counts = number("barrier_count")?;
        let (groups, limits, waits) =
            (number("group_count")?, number("group_limit")?, number("wait_barrier_count")?);
        let (copies, syncs) = (flags(batch, "is_copy")?, flags(batch, "has_warp_sync")?);
        for row in 0..batch.num_rows() {
            let steps = barriers.entry(functions.value(row)).or_default();
            if counts.is_null(row) {
                continue;
            }
            let from = pcs.is_valid(row).then(|| pcs.value(row));
            let wait = limits.is_valid(row).then(|| (limits.value(row), waits.value(row)));
            let step = AccessStep {
                barriers: counts.value(row),
                has_warp_sync: syncs.value(row),
                is_copy: copies.value(row),
                groups: groups.is_valid(row).then(|| GroupStep { closed: groups.value(row), wait }),
            };
            steps.insert((from, nexts.value(row)), step);
        }
    }
    Ok(barriers)
}

fn flags<'a>(batch: &'a RecordBatch, name: &str) -> Result<&'a BooleanArray> {
    batch.column_by_name(name).and_then(|array| array.as_boolean_opt()).ok_or_else(|| wrong(name))
}

fn pointers(batches: &[RecordBatch]) -> Result<CodePointers> {
    let mut pointers = CodePointers::new();
    for batch in batches {
        let functions = column::<UInt64Type>(batch, "function_id")?;
        let pcs = column::<UInt32Type>(batch, "pc")?;
        let offsets = column::<UInt32Type>(batch, "parameter_offset")?;
        for row in 0..batch.num_rows() {
            let place = (functions.value(row), pcs.value(row));
            pointers.entry(place).or_default().push(offsets.value(row));
        }
    }
    Ok(pointers)
}
