//! The rows of one run as its segment holds them, with identifiers that are unique in the capture.

mod global;
mod samples;

use std::collections::BTreeMap;

use arrow::array::RecordBatch;
use arrow::error::ArrowError;
use stallmap_schema::capture::recording::{
    AllocationEvent, CodeRange, OpEnd, RawSample, RunFact, StorageEvent, TensorName,
};
use stallmap_schema::capture::segment::{Frame, FrameRef, Kind, SegmentReader};
use stallmap_schema::id::RunId;
use stallmap_schema::table::Row;
use stallmap_schema::tables::code::Module;
use stallmap_schema::tables::launch::{Launch, LaunchParameter, LaunchRun};
use stallmap_schema::tables::loss::Loss;
use stallmap_schema::tables::memory::{DeviceAllocation, Memcpy, Memset};
use stallmap_schema::tables::python::{PythonFrame, PythonState};
use stallmap_schema::tables::run::{Device, Run, RunOption};
use stallmap_schema::tables::tensor::{Op, OpTensor, Storage, Tensor};
use stallmap_schema::word::LossKind;

use crate::loss::Losses;
pub(crate) use samples::RawSamples;

macro_rules! run_rows {
    ($($field:ident: $row:ident,)+) => {
        /// All rows of a run but its accesses.
        #[derive(Debug, Default)]
        pub(crate) struct RunRows {
            $(pub(crate) $field: Vec<$row>,)+
            pub(crate) samples: RawSamples,
            /// Frames of accesses, by launch ordinal.
            pub(crate) requests: BTreeMap<u64, Vec<FrameRef>>,
        }

        impl RunRows {
            /// Adds a batch; `false` where no such table is known.
            fn add(&mut self, table: &str, batch: &RecordBatch) -> Result<bool, ArrowError> {
                match table {
                    $(name if name == $row::TABLE.name => self.$field.extend($row::read_all(batch)?),)+
                    name if name == RawSample::TABLE.name => self.samples.add(batch)?,
                    _ => return Ok(false),
                }
                Ok(true)
            }
        }
    };
}

run_rows! {
    run: Run,
    facts: RunFact,
    options: RunOption,
    devices: Device,
    modules: Module,
    launches: Launch,
    launch_runs: LaunchRun,
    parameters: LaunchParameter,
    frames: PythonFrame,
    states: PythonState,
    ops: Op,
    op_ends: OpEnd,
    storage_events: StorageEvent,
    storages: Storage,
    tensors: Tensor,
    tensor_names: TensorName,
    op_tensors: OpTensor,
    allocation_events: AllocationEvent,
    allocations: DeviceAllocation,
    copies: Memcpy,
    fills: Memset,
    code_ranges: CodeRange,
    losses: Loss,
}

impl RunRows {
    /// Reads a run's rows, makes their identifiers unique, and counts what cannot be read.
    pub(crate) fn read(segment: &SegmentReader, run_id: RunId, losses: &mut Losses) -> Self {
        let mut rows = Self::default();
        for frame in segment.frames() {
            if frame.kind == Some(Kind::Requests) {
                rows.requests.entry(frame.aux).or_default().push(*frame);
                continue;
            }
            let read = match segment.read(frame) {
                Ok(Frame::Rows { table, batch }) => match rows.add(&table, &batch) {
                    Ok(true) => Ok(()),
                    Ok(false) => Err(("rows of an unknown table", table)),
                    Err(error) => Err(("damaged frame", error.to_string())),
                },
                Ok(Frame::Requests { .. } | Frame::Pages { .. }) => Ok(()),
                Err(error) => Err(("damaged frame", error.to_string())),
            };
            if let Err((reason, detail)) = read {
                losses.add(run_id, LossKind::Segment, reason, 1).get_or_insert(detail);
            }
        }
        for damage in segment.damages() {
            let reason = if damage.is_tail { "torn end of the segment" } else { "damaged frame" };
            let detail = format!("{} bytes from byte {}", damage.bytes, damage.offset);
            losses.add(run_id, LossKind::Segment, reason, 1).get_or_insert(detail);
        }
        rows.globalize(run_id);
        rows
    }
}
