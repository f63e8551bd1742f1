//! The rows of one run as its segment holds them, with identifiers that are unique in the capture.
//!
//! The rows that describe a run are read first, of all runs. All others are read when their run is written: the
//! rows of all runs together are many.

mod global;
mod once;
pub(crate) mod pages;
mod samples;
mod unique;

use std::collections::BTreeMap;
use std::fmt::Display;

use arrow::array::RecordBatch;
use arrow::error::ArrowError;
use stallmap_schema::capture::recording::{
    AccessCount, ActivityName, AllocationEvent, CodeRange, GraphNodeNumber, LossTotal, NativeAddress,
    NativeLibrary, OpEnd, RawActivity, RawSample, RunFact, SampleWindow, ShapeCount, StorageEvent,
    TensorName, TextureEvent,
};
use stallmap_schema::capture::segment::{FrameKind, FrameRef, SegmentFrame, SegmentReader};
use stallmap_schema::id::RunId;
use stallmap_schema::table::TableRow;
use stallmap_schema::tables::activity::GpuActivity;
use stallmap_schema::tables::block::{BlockTime, WarpEvent};
use stallmap_schema::tables::code::Module;
use stallmap_schema::tables::compiled::{CompiledOrigin, TritonKernel};
use stallmap_schema::tables::hlo::{HloInstruction, HloLaunch, HloModule, HloSource};
use stallmap_schema::tables::launch::{GraphLaunch, Launch, LaunchParameter, LaunchRun};
use stallmap_schema::tables::loss::Loss;
use stallmap_schema::tables::memory::{DeviceAllocation, Memcpy, Memset};
use stallmap_schema::tables::python::{PythonFrame, PythonState};
use stallmap_schema::tables::replay::{
    Ablation, AblationInstruction, Bundle, BundlePage, BundleSymbol, Counter, ObjectRedirect, Replay,
};
use stallmap_schema::tables::run::{Device, Run, RunOption};
use stallmap_schema::tables::tensor::{Op, OpMetric, OpRange, OpTensor, Storage, Tensor};
use stallmap_schema::word::LossKind;

use self::pages::PageFrames;
use crate::loss::LossTotals;

pub(crate) use global::IdBases;
pub(crate) use once::once;
pub(crate) use pages::contents_of;
pub(crate) use samples::{InternedSample, RawSamples};

/// Tables of the rows that describe a run. They are few, and what comes twice is merged.
const DESCRIPTION: [&str; 6] = [
    Run::TABLE.name,
    RunFact::TABLE.name,
    RunOption::TABLE.name,
    Module::TABLE.name,
    CodeRange::TABLE.name,
    LossTotal::TABLE.name,
];

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
            /// Frames of rows that are not read yet.
            unread: Vec<FrameRef>,
            /// True if the run launched anything.
            pub(crate) has_launches: bool,
            /// Rows and frames that the segment holds, but for losses.
            pub(crate) found: (u64, u64),
            keys: unique::RowKeys,
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
    block_times: BlockTime,
    warp_events: WarpEvent,
    parameters: LaunchParameter,
    textures: TextureEvent,
    frames: PythonFrame,
    states: PythonState,
    native_libraries: NativeLibrary,
    native_addresses: NativeAddress,
    origins: CompiledOrigin,
    triton_kernels: TritonKernel,
    ops: Op,
    op_ends: OpEnd,
    storage_events: StorageEvent,
    storages: Storage,
    tensors: Tensor,
    tensor_names: TensorName,
    op_tensors: OpTensor,
    op_ranges: OpRange,
    op_metrics: OpMetric,
    hlo_modules: HloModule,
    hlo_instructions: HloInstruction,
    hlo_sources: HloSource,
    hlo_launches: HloLaunch,
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
    redirects: ObjectRedirect,
    losses: Loss,
    loss_totals: LossTotal,
}

impl RunRows {
    /// Reads the rows that describe a run, and counts what is unreadable. The frames of all others are noted.
    pub(crate) fn open(segment: &SegmentReader, run_id: RunId, losses: &mut LossTotals) -> Self {
        let mut rows = Self::default();
        for frame in segment.frames() {
            if let Err((reason, detail)) = rows.note_frame(segment, frame) {
                losses.add(run_id, LossKind::Segment, reason, 1).get_or_insert(detail);
            }
        }
        for damage in segment.damages() {
            let reason = if damage.is_tail { "torn end of the segment" } else { "damaged frame" };
            let detail = format!("{} bytes from byte {}", damage.bytes, damage.offset);
            losses.add(run_id, LossKind::Segment, reason, 1).get_or_insert(detail);
        }
        rows
    }

    /// Adds the rows that the run wrote when its segment could not be written any more. They describe its end, and what
    /// is behind them was never used.
    pub(crate) fn open_reserve(&mut self, reserve: &SegmentReader) {
        for frame in reserve.frames() {
            // An incomplete row has an earlier one of the same losses.
            if let Ok((table, batch)) = rows_of(reserve, frame) {
                self.describe(&table, &batch).unwrap_or_default();
            }
        }
    }

    /// Reads the rows that were noted. Their identifiers are the run's own.
    pub(crate) fn read(&mut self, segment: &SegmentReader, run_id: RunId, losses: &mut LossTotals) {
        for frame in std::mem::take(&mut self.unread) {
            if let Err((reason, detail)) = self.read_frame(segment, &frame) {
                losses.add(run_id, LossKind::Segment, reason, 1).get_or_insert(detail);
            }
        }
        losses.add(run_id, LossKind::Segment, "row with the key of an earlier row", self.repeated);
        self.keys = unique::RowKeys::default();
    }

    /// Bytes of all records of accesses.
    pub(crate) fn request_bytes(&self) -> u64 {
        self.requests.values().flatten().map(|frame| u64::from(frame.raw_bytes)).sum()
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

    /// Adds a frame's rows if they describe the run, or notes the frame.
    fn note_frame(&mut self, segment: &SegmentReader, frame: &FrameRef) -> Result<(), UnreadableRows> {
        match frame.kind {
            Some(FrameKind::Requests) => {
                self.found.1 += 1;
                self.requests.entry(frame.aux).or_default().push(*frame);
            }
            Some(FrameKind::Pages) => {
                self.found.1 += 1;
                self.pages.add_contents(frame);
            }
            Some(FrameKind::Rows) | None => {
                let (table, batch) = rows_of(segment, frame)?;
                if !self.describe(&table, &batch)? {
                    self.has_launches |= table == Launch::TABLE.name && batch.num_rows() > 0;
                    self.unread.push(*frame);
                }
            }
        }
        Ok(())
    }

    /// Adds a batch of rows that describe the run. `false` for all others.
    fn describe(&mut self, table: &str, batch: &RecordBatch) -> Result<bool, UnreadableRows> {
        if table != LossTotal::TABLE.name {
            self.found.0 += batch.num_rows() as u64;
        }
        if DESCRIPTION.contains(&table) { self.add(table, batch).map_err(damaged) } else { Ok(false) }
    }

    fn read_frame(&mut self, segment: &SegmentReader, frame: &FrameRef) -> Result<(), UnreadableRows> {
        let (table, batch) = rows_of(segment, frame)?;
        let count = batch.num_rows();
        let batch = self.keys.first(&table, batch).map_err(damaged)?;
        self.repeated += (count - batch.num_rows()) as u64;
        if table == BundlePage::TABLE.name {
            return self.pages.add(frame, &batch).map_err(damaged);
        }
        let is_known = self.add(&table, &batch).map_err(damaged)?;
        if is_known { Ok(()) } else { Err(("rows of an unknown table", table)) }
    }
}

/// The reason why rows cannot be read, and its detail.
type UnreadableRows = (&'static str, String);

fn damaged(error: impl Display) -> UnreadableRows {
    ("damaged frame", error.to_string())
}

/// The rows of a frame, and the name of their table.
fn rows_of(segment: &SegmentReader, frame: &FrameRef) -> Result<(String, RecordBatch), UnreadableRows> {
    match segment.read(frame).map_err(damaged)? {
        SegmentFrame::Rows { table, batch } => Ok((table, batch)),
        SegmentFrame::Requests { .. } | SegmentFrame::Pages { .. } => Err(damaged("it holds no rows")),
    }
}
