//! Calls and launches in time: the part that timeline formats share.

use std::collections::{BTreeMap, BTreeSet};

use stallmap::library::queries::export as queries;
use stallmap_console::exit::Outcome;
use stallmap_console::rows;

use crate::round::{nanoseconds, unsigned};
use crate::source::ExportSource;

mod clock;
mod ranks;

pub(crate) use clock::RunClocks;
pub(crate) use ranks::TimelineRanks;

rows! {
    /// A launch of the program.
    pub(crate) struct TimelineLaunch {
        pub(crate) kernel_id: u64,
        pub(crate) run_id: u32,
        pub(crate) process_id: i64,
        pub(crate) device_id: i64,
        pub(crate) stream_id: Option<u32>,
        pub(crate) thread_id: Option<u32>,
        pub(crate) call_begin_ns: Option<i64>,
        pub(crate) call_end_ns: Option<i64>,
        pub(crate) call_name: Option<String>,
        pub(crate) correlation_id: Option<u64>,
        pub(crate) gpu_begin_ns: Option<i64>,
        pub(crate) duration_ns: Option<f64>,
        pub(crate) kernel: Option<String>,
        pub(crate) mangled_name: Option<String>,
        pub(crate) short_kernel: Option<String>,
        pub(crate) traced_kernel: Option<String>,
        pub(crate) grid_x: u32,
        pub(crate) grid_y: u32,
        pub(crate) grid_z: u32,
        pub(crate) block_x: u32,
        pub(crate) block_y: u32,
        pub(crate) block_z: u32,
        pub(crate) register_count: Option<u32>,
        pub(crate) static_shared_bytes: Option<u32>,
        pub(crate) dynamic_shared_bytes: Option<u32>,
        pub(crate) op_id: Option<u64>,
        pub(crate) op: Option<String>,
        pub(crate) line: Option<String>,
        pub(crate) graph_id: Option<u64>,
        pub(crate) graph_node: Option<u32>,
        pub(crate) occupancy: Option<f64>,
        pub(crate) waves: Option<f64>,
        pub(crate) samples: Option<f64>,
        pub(crate) memory_samples: Option<f64>,
        pub(crate) estimated_ns: Option<f64> as "time_ns",
    }

    /// A call of an op, or a region of the user.
    pub(crate) struct TimelineCall {
        pub(crate) op_id: u64,
        pub(crate) run_id: u32,
        pub(crate) process_id: i64,
        pub(crate) thread_id: u32,
        pub(crate) kind: String,
        pub(crate) name: String,
        pub(crate) parent_op_id: Option<u64>,
        pub(crate) begin_ns: i64,
        pub(crate) end_ns: Option<i64>,
        pub(crate) phase: String,
        pub(crate) step: u32,
        pub(crate) sequence_number: Option<i64>,
        pub(crate) module_path: Option<String>,
        pub(crate) line: Option<String>,
    }

    /// A memcpy or a memset.
    pub(crate) struct TimelineCopy {
        pub(crate) run_id: u32,
        pub(crate) process_id: i64,
        pub(crate) kind: String,
        pub(crate) direction: Option<String>,
        pub(crate) size_bytes: Option<u64>,
        pub(crate) device_id: Option<i64>,
        pub(crate) stream_id: Option<u32>,
        pub(crate) begin_ns: i64,
        pub(crate) end_ns: Option<i64>,
        pub(crate) op_id: Option<u64>,
        pub(crate) call_begin_ns: Option<i64>,
        pub(crate) call_end_ns: Option<i64>,
        pub(crate) thread_id: Option<u32>,
        pub(crate) call_name: Option<String>,
        pub(crate) correlation_id: Option<u64>,
        pub(crate) copy_memory: Option<String>,
    }

    /// A process of the program.
    pub(crate) struct TimelineProcess {
        pub(crate) run_id: u32,
        pub(crate) instrument: String,
        pub(crate) program: String,
        pub(crate) id: i64 as "process_id",
        pub(crate) rank: Option<u32>,
        pub(crate) world_size: Option<u32>,
        pub(crate) started_ns: i64,
        pub(crate) cuda_version: Option<i64>,
        pub(crate) torch_version: Option<String>,
    }

    /// A GPU.
    pub(crate) struct TimelineDevice {
        pub(crate) id: i64 as "device_id",
        pub(crate) name: String,
        pub(crate) compute_major: i64,
        pub(crate) compute_minor: i64,
        pub(crate) multiprocessor_count: i64,
        pub(crate) memory_bytes: u64,
    }

    /// A block of a launch.
    pub(crate) struct TimelineBlock {
        pub(crate) kernel_id: u64,
        pub(crate) process_id: i64,
        pub(crate) multiprocessor: i64,
        pub(crate) block: i64,
        pub(crate) wave: i64,
        pub(crate) kernel: Option<String> as "short_kernel",
        pub(crate) begin_ns: i64,
        pub(crate) duration_ns: i64,
        pub(crate) blocks: i64,
    }

    /// A phase of a warp inside of a launch.
    pub(crate) struct TimelinePhase {
        pub(crate) kernel_id: u64,
        pub(crate) process_id: i64,
        pub(crate) block: i64,
        pub(crate) warp: i64,
        pub(crate) phase: String,
        pub(crate) pc: i64,
        pub(crate) line: Option<String>,
        pub(crate) begin_ns: i64,
        pub(crate) duration_ns: i64,
        pub(crate) phases: i64,
    }

    /// Things that the capture lacks.
    pub(crate) struct TimelineLoss {
        pub(crate) kind: String,
        pub(crate) reason: String,
        pub(crate) lost_count: u64,
    }

    /// Samples of a launch for a stall reason.
    pub(crate) struct LaunchReason {
        pub(crate) kernel_id: u64,
        pub(crate) name: String as "stall_reason",
        pub(crate) samples: f64,
    }

    /// A hardware counter of a launch.
    pub(crate) struct TimelineCounter {
        pub(crate) kernel_id: u64,
        pub(crate) metric: String,
        pub(crate) unit: String,
        pub(crate) value: f64,
    }
}

/// The rows of a timeline.
pub(crate) struct CaptureTimeline {
    pub(crate) launches: Vec<TimelineLaunch>,
    pub(crate) calls: Vec<TimelineCall>,
    pub(crate) copies: Vec<TimelineCopy>,
    pub(crate) processes: Vec<TimelineProcess>,
    pub(crate) devices: Vec<TimelineDevice>,
    pub(crate) losses: Vec<TimelineLoss>,
    pub(crate) clocks: RunClocks,
    pub(crate) ranks: TimelineRanks,
}

impl CaptureTimeline {
    /// Reads the rows of a capture. A program that was recorded in several runs has the clock of one of them.
    pub(crate) fn read(source: &ExportSource) -> Outcome<Self> {
        let processes: Vec<TimelineProcess> = source.read(queries::PROGRAM)?;
        let mut timeline = Self {
            ranks: TimelineRanks::from_processes(&processes),
            launches: source.read(queries::LAUNCHES)?,
            calls: source.read(queries::CALLS)?,
            copies: source.read(queries::COPIES)?,
            processes,
            devices: source.read(queries::DEVICES)?,
            losses: source.read(queries::LOSSES)?,
            clocks: RunClocks::read(source)?,
        };
        timeline.join_clocks();
        Ok(timeline)
    }

    fn join_clocks(&mut self) {
        let clocks = &self.clocks;
        for launch in &mut self.launches {
            let moved = |ns| clocks.moment(launch.run_id, launch.thread_id, ns);
            (launch.call_begin_ns, launch.call_end_ns, launch.gpu_begin_ns) = (
                launch.call_begin_ns.map(moved),
                launch.call_end_ns.map(moved),
                launch.gpu_begin_ns.map(moved),
            );
        }
        for call in &mut self.calls {
            let moved = |ns| clocks.moment(call.run_id, Some(call.thread_id), ns);
            (call.begin_ns, call.end_ns) = (moved(call.begin_ns), call.end_ns.map(moved));
        }
        for process in &mut self.processes {
            process.started_ns = clocks.moment(process.run_id, None, process.started_ns);
        }
        // Other runs of the program did the same copies.
        self.copies.retain(|copy| clocks.is_clock(copy.run_id));
    }

    /// The first moment, nanoseconds since the Unix epoch.
    pub(crate) fn begin_ns(&self) -> u64 {
        let calls = self.calls.iter().map(|call| call.begin_ns);
        let launches =
            self.launches.iter().flat_map(|launch| [launch.call_begin_ns, launch.gpu_begin_ns]).flatten();
        let processes = self.processes.iter().map(|process| process.started_ns);
        unsigned(calls.chain(launches).chain(processes).min().unwrap_or(0))
    }

    /// Facts about the file that its reader needs, by name: origin of times, versions, losses.
    pub(crate) fn facts(&self) -> BTreeMap<String, String> {
        let mut facts = BTreeMap::from([
            ("stallmap version".to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
            ("time of kernels".to_owned(), time_source(&self.launches, &self.processes)),
            ("launches".to_owned(), self.launches.len().to_string()),
        ]);
        if self.clocks.are_joined() {
            let joined = "those of a timeline, else of the first run. Ops of other runs lie where the calls of their launches do";
            facts.insert("clock".to_owned(), joined.to_owned());
        }
        let undrawn = self.launches.iter().filter(|launch| launch.begin_ns().is_none()).count();
        if undrawn > 0 {
            facts.insert("launches without a time, left out".to_owned(), undrawn.to_string());
        }
        for loss in &self.losses {
            facts.insert(format!("lost: {}, {}", loss.kind, loss.reason), loss.lost_count.to_string());
        }
        facts
    }
}

/// Process, begin, end and number of a call.
type CallKey = (i64, i64, i64, Option<u64>);

/// The work of one call: kernels by their numbers, copies and fills by their places.
#[derive(Default)]
pub(crate) struct CallWorks {
    pub(crate) kernels: Vec<u64>,
    pub(crate) copies: Vec<usize>,
}

/// The work of launch calls with several: kernels, copies and fills of one graph launch share theirs.
pub(crate) struct SharedCalls(BTreeMap<CallKey, CallWorks>);

impl SharedCalls {
    pub(crate) fn from_timeline(timeline: &CaptureTimeline) -> Self {
        let mut works: BTreeMap<CallKey, CallWorks> = BTreeMap::new();
        for launch in &timeline.launches {
            if let Some(key) = launch.call_key() {
                works.entry(key).or_default().kernels.push(launch.kernel_id);
            }
        }
        for (place, copy) in timeline.copies.iter().enumerate() {
            if let Some(key) = copy.call_key() {
                works.entry(key).or_default().copies.push(place);
            }
        }
        works.retain(|_, works| works.kernels.len() + works.copies.len() > 1);
        Self(works)
    }

    /// The work of a launch's call, if it is several.
    pub(crate) fn of_launch(&self, launch: &TimelineLaunch) -> Option<&CallWorks> {
        self.0.get(&launch.call_key()?)
    }

    /// The same of the call of a copy.
    pub(crate) fn of_copy(&self, copy: &TimelineCopy) -> Option<&CallWorks> {
        self.0.get(&copy.call_key()?)
    }

    /// The first kernel of a launch's call, and true if it has other work.
    pub(crate) fn first(&self, launch: &TimelineLaunch) -> (u64, bool) {
        let first = self.of_launch(launch).and_then(|works| works.kernels.first());
        (first.copied().unwrap_or(launch.kernel_id), first.is_some())
    }

    /// True if the call of a copy, by its place, is not that of earlier work.
    pub(crate) fn is_first(&self, copy: &TimelineCopy, place: usize) -> bool {
        let works = self.of_copy(copy);
        works.is_none_or(|works| works.kernels.is_empty() && works.copies.first() == Some(&place))
    }
}

/// The origin of the kernels' times, for the reader of a file.
pub(crate) fn time_source(launches: &[TimelineLaunch], processes: &[TimelineProcess]) -> String {
    let all = launches.len();
    let count = |is: &dyn Fn(&TimelineLaunch) -> bool| launches.iter().filter(|launch| is(launch)).count();
    let timed = count(&|launch| launch.gpu_begin_ns.is_some());
    if timed == all {
        return "begin and end on the GPU, from a timeline".to_owned();
    }
    let instruments: BTreeSet<&str> = processes.iter().map(|process| process.instrument.as_str()).collect();
    let instruments = Vec::from_iter(instruments).join(", ");
    let known = count(&|launch| launch.duration().is_some());
    format!(
        "begin: {timed} of {all} launches on the GPU, from a timeline, the rest at their launch call on the CPU under the \
         instrument {instruments}. duration: timeline or replay, known for {known} of {all} launches"
    )
}

/// A call. Those without a length may be several.
fn call_key(process_id: i64, span: Option<(i64, i64)>, correlation_id: Option<u64>) -> Option<CallKey> {
    let (begin, end) = span.filter(|(begin, end)| end > begin)?;
    Some((process_id, begin, end, correlation_id))
}

impl TimelineCopy {
    fn call_key(&self) -> Option<CallKey> {
        call_key(self.process_id, self.call_begin_ns.zip(self.call_end_ns), self.correlation_id)
    }

    /// Its name, as PyTorch's profiler writes it.
    pub(crate) fn name(&self) -> String {
        let (direction, memory) = match self.direction.as_deref() {
            None => return "Memset (Device)".to_owned(),
            Some("host_to_device") => ("HtoD", None),
            Some("device_to_host") => ("DtoH", None),
            Some("device_to_device") => ("DtoD", Some("Device -> Device")),
            Some(other) => (other, None),
        };
        match self.copy_memory.as_deref().or(memory) {
            Some(memory) => format!("Memcpy {direction} ({memory})"),
            None => format!("Memcpy {direction}"),
        }
    }
}

impl TimelineLaunch {
    fn call_key(&self) -> Option<CallKey> {
        call_key(self.process_id, self.call_begin_ns.zip(self.call_end_ns), self.correlation_id)
    }

    /// Begin of the kernel, nanoseconds since the Unix epoch: on the GPU, else of its launch call.
    pub(crate) fn begin_ns(&self) -> Option<u64> {
        self.gpu_begin_ns.or(self.call_begin_ns).map(unsigned)
    }

    /// True if the timeline, which has the clock of its program, did not record it.
    pub(crate) fn is_unseen(&self, clocks: &RunClocks) -> bool {
        self.gpu_begin_ns.is_none() && clocks.has_timeline(self.run_id)
    }

    /// Measured duration, nanoseconds.
    pub(crate) fn duration(&self) -> Option<u64> {
        self.duration_ns.map(nanoseconds)
    }

    /// The name of its kernel.
    pub(crate) fn name(&self) -> &str {
        self.kernel.as_deref().unwrap_or("(unknown kernel)")
    }

    /// Blocks of the grid in x, y and z.
    pub(crate) fn grid(&self) -> [u32; 3] {
        [self.grid_x, self.grid_y, self.grid_z]
    }

    /// Threads of a block in x, y and z.
    pub(crate) fn block(&self) -> [u32; 3] {
        [self.block_x, self.block_y, self.block_z]
    }
}
