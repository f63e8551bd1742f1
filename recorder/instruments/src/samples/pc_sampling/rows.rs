//! Rows of launches.

use std::collections::{BTreeMap, BTreeSet};

use stallmap_schema::capture::recording::CodeRange;
use stallmap_schema::id::{Address, FunctionId, KernelId, RunId};
use stallmap_schema::tables::launch::{Launch, LaunchRun};
use stallmap_schema::tables::loss::Loss;
use stallmap_schema::word::{LossKind, Match};
use stallmap_sys::cuda::DriverHandle;

use stallmap_session::context::OpContext;
use stallmap_session::gpu::code::LoadedCode;
use stallmap_session::gpu::device;
use stallmap_session::session;

/// Things that rows refer to by number, and things that are written once.
#[derive(Debug, Default)]
pub(super) struct SampleRowBook {
    streams: BTreeMap<usize, u32>,
    devices: BTreeSet<i32>,
    /// Functions whose names are recorded.
    named: BTreeSet<FunctionId>,
}

impl SampleRowBook {
    /// A stream's number.
    pub(super) fn stream(&mut self, stream: DriverHandle) -> u32 {
        let next = u32::try_from(self.streams.len()).unwrap_or(u32::MAX);
        *self.streams.entry(stream.key()).or_insert(next)
    }

    /// True if a device was not described before.
    pub(super) fn is_new_device(&mut self, device_id: i32) -> bool {
        self.devices.insert(device_id)
    }

    /// True if a function was not named before.
    pub(super) fn is_new_function(&mut self, function_id: FunctionId) -> bool {
        self.named.insert(function_id)
    }
}

/// A kernel that ran.
#[derive(Clone, Copy, Debug)]
pub(super) struct RanKernel<'a> {
    pub(super) ordinal: u64,
    /// The launch, as its rows name it: the replayed one, or its ordinal.
    pub(super) kernel_id: KernelId,
    pub(super) name: &'a str,
    /// Grid x, y, z, block x, y, z.
    pub(super) shape: [u32; 6],
    pub(super) shared_bytes: u32,
    /// The context of the thread that launched or captured it.
    pub(super) context: Option<OpContext>,
}

/// The call that launched a kernel.
#[derive(Clone, Copy, Debug)]
pub(super) struct CallTimes {
    pub(super) thread_id: u32,
    pub(super) stream_id: u32,
    /// CUPTI's, where it names one kernel's samples, or the kernels of a graph launch that are not sampled.
    pub(super) correlation_id: Option<u64>,
    pub(super) begin_ns: i64,
    pub(super) end_ns: i64,
}

/// The samples of a launch, as its row has them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LaunchSamples {
    /// Samples in rows.
    pub(super) collected: u64,
    /// Samples that the hardware took and that are in no row.
    pub(super) lost: u64,
    /// The period, where it is not the run's.
    pub(super) period_cycles: Option<u64>,
    /// True if the samples are a share of those of several nodes.
    pub(super) is_split: Option<bool>,
}

/// The launch's own row.
pub(super) fn launch(kernel: &RanKernel<'_>, function_id: FunctionId, device_id: i32) -> Launch {
    let [grid_x, grid_y, grid_z, block_x, block_y, block_z] = kernel.shape;
    Launch {
        kernel_id: kernel.kernel_id,
        function_id,
        ordinal: kernel.ordinal,
        grid_x,
        grid_y,
        grid_z,
        block_x,
        block_y,
        block_z,
        dynamic_shared_bytes: Some(kernel.shared_bytes),
        device_id,
        op_id: kernel.context.and_then(|context| context.op_id),
        pystates_hash: kernel.context.and_then(|context| context.pystates_hash),
        native_stack: kernel.context.and_then(|context| context.native_stack),
        ..Launch::default()
    }
}

/// The launch's row of this run; `sampled` is `None` where no samples were taken.
pub(super) fn launch_run(
    kernel: &RanKernel<'_>,
    matched: Match,
    times: &CallTimes,
    recorded: bool,
    sampled: Option<LaunchSamples>,
) -> LaunchRun {
    LaunchRun {
        ordinal: kernel.ordinal,
        kernel_id: kernel.kernel_id,
        matched,
        thread_id: times.thread_id,
        stream_id: times.stream_id,
        correlation_id: times.correlation_id,
        begin_ns: times.begin_ns,
        end_ns: Some(times.end_ns),
        recorded,
        sample_count: sampled.map(|sampled| sampled.collected + sampled.lost),
        lost_sample_count: sampled.map(|sampled| sampled.lost),
        sampling_period_cycles: sampled.and_then(|sampled| sampled.period_cycles),
        samples_are_split: sampled.and_then(|sampled| sampled.is_split),
        ..LaunchRun::default()
    }
}

/// The name of a function, for its samples. CUPTI does not report where its code lies.
pub(super) fn name(function_id: FunctionId, code: &LoadedCode, name: &str, ordinal: u64) -> CodeRange {
    CodeRange {
        function_id,
        module_id: code.module_id,
        name: name.to_owned(),
        is_kernel: true,
        address: Address(0),
        code_bytes: 0,
        ordinal,
    }
}

/// Writes a loss that concerns one launch, by its ordinal, also where it is a replay.
pub(super) fn lose_at(ordinal: u64, kind: LossKind, reason: &str, lost_count: u64, detail: Option<String>) {
    let kernel_id = Some(KernelId(ordinal));
    session::emit(Loss { run_id: RunId(0), kind, reason: reason.to_owned(), lost_count, kernel_id, detail });
}

/// Describes the current device, once.
pub(super) fn describe_device(device_id: i32) {
    if let Some(device) = device::describe(device_id) {
        session::emit(device);
    }
}
