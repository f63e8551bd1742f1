//! The rows of one run as its segment holds them, with identifiers that are unique in the capture.

mod global;
pub(crate) mod pages;
mod samples;
mod unique;

use std::collections::BTreeMap;

use arrow::array::RecordBatch;
use arrow::error::ArrowError;
use stallmap_schema::capture::recording::{
    AccessCount, ActivityName, AllocationEvent, CodeRange, GraphNodeNumber, LossTotal, OpEnd, RawActivity,
    RawSample, RunFact, SampleWindow, ShapeCount, StorageEvent, TensorName,
};
use stallmap_schema::capture::segment::{Frame, FrameRef, Kind, SegmentReader};
use stallmap_schema::id::RunId;
use stallmap_schema::table::Row;
use stallmap_schema::tables::activity::GpuActivity;
use stallmap_schema::tables::code::Module;
use stallmap_schema::tables::launch::{GraphLaunch, Launch, LaunchParameter, LaunchRun};
use stallmap_schema::tables::loss::Loss;
use stallmap_schema::tables::memory::{DeviceAllocation, Memcpy, Memset};
use stallmap_schema::tables::python::{PythonFrame, PythonState};
use stallmap_schema::tables::replay::{
    Ablation, AblationInstruction, Bundle, BundlePage, BundleSymbol, Counter, Replay,
};
use stallmap_schema::tables::run::{Device, Run, RunOption};
use stallmap_schema::tables::tensor::{Op, OpTensor, Storage, Tensor};
use stallmap_schema::word::LossKind;

use self::pages::PageFrames;
use crate::loss::Losses;

pub(crate) use global::Bases;
pub(crate) use pages::contents_of;
pub(crate) use samples::{RawSamples, Sample};

macro_rules! run_rows {
    ($($field:ident: $row:ident,)+) => {
        /// All rows of a run but its accesses and its bundles' pages.
        #[derive(Debug, Default)]
        pub(crate) struct RunRows {
            $(pub(crate) $field: Vec<$row>,)+
            pub(crate) samples: RawSamples,
            /// Frames of accesses, by launch ordinal.
            pub(crate) requests: BTreeMap<u64, Vec<FrameRef>>,
            pub(crate) pages: PageFrames,
            /// Rows and frames that were read, but for losses.
            pub(crate) found: (u64, u64),
            keys: unique::Keys,
            /// Rows whose key an earlier row has.
            repeated: u64,
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
    graph_launches: GraphLaunch,
    raw_activities: RawActivity,
    sample_windows: SampleWindow,
    activity_names: ActivityName,
    graph_node_numbers: GraphNodeNumber,
    activities: GpuActivity,
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
    access_counts: AccessCount,
    shape_counts: ShapeCount,
    copies: Memcpy,
    fills: Memset,
    code_ranges: CodeRange,
    bundles: Bundle,
    symbols: BundleSymbol,
    replays: Replay,
    counters: Counter,
    ablations: Ablation,
    ablation_instructions: AblationInstruction,
    losses: Loss,
    loss_totals: LossTotal,
}

impl RunRows {
    /// Reads a run's rows, and counts unreadable ones. Their identifiers are the run's own.
    pub(crate) fn read(segment: &SegmentReader, run_id: RunId, losses: &mut Losses) -> Self {
        let mut rows = Self::default();
        for frame in segment.frames() {
            if let Err((reason, detail)) = rows.add_frame(segment, frame) {
                losses.add(run_id, LossKind::Segment, reason, 1).get_or_insert(detail);
            }
        }
        for damage in segment.damages() {
            let reason = if damage.is_tail { "torn end of the segment" } else { "damaged frame" };
            let detail = format!("{} bytes from byte {}", damage.bytes, damage.offset);
            losses.add(run_id, LossKind::Segment, reason, 1).get_or_insert(detail);
        }
        losses.add(run_id, LossKind::Segment, "row with the key of an earlier row", rows.repeated);
        rows.keys = unique::Keys::default();
        rows
    }

    /// Adds the rows that the run wrote when its segment could not be written any more. What is behind them was never
    /// used.
    pub(crate) fn read_reserve(&mut self, reserve: &SegmentReader) {
        for frame in reserve.frames() {
            // An incomplete row has an earlier one of the same losses.
            self.add_frame(reserve, frame).unwrap_or_default();
        }
    }

    /// Turns the last total of each kind and reason into rows of `loss`.
    pub(crate) fn settle_losses(&mut self) {
        let mut last: BTreeMap<(LossKind, String), LossTotal> = BTreeMap::new();
        for total in std::mem::take(&mut self.loss_totals) {
            last.insert((total.kind, total.reason.clone()), total);
        }
        self.losses.extend(last.into_values().map(|total| Loss {
            run_id: RunId(0),
            kind: total.kind,
            reason: total.reason,
            lost_count: total.total_count,
            kernel_id: None,
            detail: total.detail,
        }));
    }

    /// Adds a frame's content, or notes its location. The error is the reason with its detail if neither works.
    fn add_frame(&mut self, segment: &SegmentReader, frame: &FrameRef) -> Result<(), (&'static str, String)> {
        match frame.kind {
            Some(Kind::Requests) => {
                self.found.1 += 1;
                self.requests.entry(frame.aux).or_default().push(*frame);
            }
            Some(Kind::Pages) => {
                self.found.1 += 1;
                self.pages.add_contents(frame);
            }
            Some(Kind::Rows) | None => {
                let read = segment.read(frame).map_err(|error| ("damaged frame", error.to_string()))?;
                let Frame::Rows { table, batch } = read else { return Ok(()) };
                if table != LossTotal::TABLE.name {
                    self.found.0 += batch.num_rows() as u64;
                }
                let count = batch.num_rows();
                let batch =
                    self.keys.first(&table, batch).map_err(|error| ("damaged frame", error.to_string()))?;
                self.repeated += (count - batch.num_rows()) as u64;
                let added = if table == BundlePage::TABLE.name {
                    self.pages.add(frame, &batch).map(|()| true)
                } else {
                    self.add(&table, &batch)
                };
                if !added.map_err(|error| ("damaged frame", error.to_string()))? {
                    return Err(("rows of an unknown table", table));
                }
            }
        }
        Ok(())
    }
}
