//! A recording of another tool, independent of its file format. Times are nanoseconds since the Unix epoch.

use std::collections::BTreeMap;
use std::rc::Rc;

use stallmap_schema::word::{AccessKind, ActivityKind, CopyKind, Instrument, Space, SynchronizationKind};

pub use crate::trace::collective::CollectiveCall;
pub use crate::trace::loss::{ABSENT, TraceLosses};
pub use crate::trace::op::{InputValue, OpDetails, RowLink, TraceOp};

/// A recording.
#[derive(Debug, Default)]
pub struct TraceModel {
    /// The tool that wrote the file, in lower case.
    pub tool: &'static str,
    /// Facts about the recording, which become options of the run.
    pub facts: BTreeMap<String, String>,
    /// Processes of the program.
    pub processes: Vec<TraceProcess>,
    /// GPUs.
    pub devices: Vec<TraceDevice>,
    /// Kernels that ran.
    pub kernels: Vec<TraceKernel>,
    /// Copies, fills and waits.
    pub works: Vec<TraceActivity>,
    /// Ops and regions.
    pub ops: Vec<TraceOp>,
    /// Frames of Python stacks.
    pub frames: Vec<TraceFrame>,
    /// Python stacks: places of frames, innermost first.
    pub stacks: Vec<Vec<usize>>,
    /// Allocations of the framework.
    pub storages: Vec<TraceStorage>,
    /// Allocations of the driver, which the framework divides.
    pub segments: Vec<TraceSegment>,
    /// Allocations that failed.
    pub failures: Vec<TraceFailure>,
    /// Hardware counters of kernels.
    pub counters: Vec<TraceCounter>,
    /// Numbers that the program gave to regions.
    pub region_numbers: Vec<RegionNumber>,
    /// Memory accesses of kernels.
    pub accesses: Vec<TraceAccess>,
    /// Cubins by their BLAKE3 hash, which is the `code` of their kernels.
    pub cubins: BTreeMap<Rc<str>, Vec<u8>>,
    /// Texts of source files by their names in line tables.
    pub sources: BTreeMap<String, String>,
    /// Kernels that were sampled.
    pub samplings: Vec<KernelSampling>,
    /// Samples of instructions.
    pub samples: Vec<TraceSample>,
    /// Launch calls without a kernel, in order.
    pub pending: Vec<UnmatchedCall>,
    /// Data that the source lacks, or that was left out.
    pub losses: TraceLosses,
}

/// A process.
#[derive(Clone, Debug)]
pub struct TraceProcess {
    /// Its number in the system.
    pub number: u32,
    /// Its program, if known.
    pub program: String,
    /// Its instrument.
    pub instrument: Instrument,
    /// Its rank.
    pub rank: Option<u32>,
    /// Processes of the program.
    pub world_size: Option<u32>,
    /// CUDA version that the driver supports.
    pub cuda_version: Option<i32>,
    /// For another instrument on the launches of a process, that process, by place.
    pub reference: Option<usize>,
    /// The clock of its times: processes of one file have one.
    pub clock: usize,
    /// Facts about the process, which become options of its run.
    pub facts: BTreeMap<String, String>,
}

impl TraceProcess {
    /// A process of which nothing but its number is known.
    pub fn with_number(number: u32, instrument: Instrument) -> Self {
        Self {
            number,
            program: String::new(),
            instrument,
            rank: None,
            world_size: None,
            cuda_version: None,
            reference: None,
            clock: 0,
            facts: BTreeMap::new(),
        }
    }
}

/// A GPU.
#[derive(Debug, Default)]
pub struct TraceDevice {
    /// CUDA's device ordinal.
    pub ordinal: i32,
    /// The process that counts it so, by place. None for all.
    pub process: Option<usize>,
    /// Its identity, if the source has it.
    pub uuid: Option<String>,
    /// Its name.
    pub name: String,
    /// Compute capability, major and minor.
    pub compute: (i32, i32),
    /// Multiprocessors.
    pub multiprocessors: i32,
    /// Bytes of memory, 0 if the source does not have them.
    pub memory_bytes: u64,
    /// Bytes of L2 cache, 0 if the source does not have them.
    pub l2_bytes: u64,
    /// Clocks of multiprocessors and of memory in kHz, 0 if the source does not have them.
    pub clocks_khz: (i32, i32),
}

/// A call on a thread of the CPU.
#[derive(Clone, Copy, Debug)]
pub struct TraceCall {
    /// The thread, by the source's number.
    pub thread: u64,
    /// Begin.
    pub begin_ns: i64,
    /// End.
    pub end_ns: i64,
}

/// A kernel that ran.
#[derive(Debug, Default)]
pub struct TraceKernel {
    /// Its process, by place.
    pub process: usize,
    /// Its name, as the source has it.
    pub name: Rc<str>,
    /// CUDA's device ordinal.
    pub device: i32,
    /// The stream, by the source's number.
    pub stream: u64,
    /// Begin and end on the GPU. None where the source measured a duration or counters only.
    pub time_ns: Option<(i64, i64)>,
    /// Begin on the GPU, also of a kernel without an end.
    pub begin_ns: Option<i64>,
    /// Blocks in x, y and z.
    pub grid: Option<[u32; 3]>,
    /// Threads of a block in x, y and z.
    pub block: Option<[u32; 3]>,
    /// Blocks of a cluster in x, y and z. None without clusters.
    pub cluster: Option<[u32; 3]>,
    /// Registers of a thread.
    pub registers: Option<u32>,
    /// Shared memory of a block, static and dynamic, if the source has both.
    pub shared_bytes: Option<(u32, u32)>,
    /// The source's number of the launch call.
    pub correlation: Option<u64>,
    /// The launch call.
    pub call: Option<TraceCall>,
    /// The name of that call, if the source has it.
    pub call_name: Option<Rc<str>>,
    /// The op around the launch call, by place.
    pub op: Option<usize>,
    /// Its own Python stack, by place. None if it is that of its op.
    pub stack: Option<usize>,
    /// The source's identity of its code. None if the source has names only.
    pub code: Option<Rc<str>>,
    /// Its requests. None if the source has no accesses of it.
    pub requests: Option<Box<LaunchRequests>>,
    /// Its arguments as a collective. None if it is not one.
    pub collective: Option<Box<CollectiveCall>>,
}

/// A launch call without a kernel: the capture of a graph has them.
#[derive(Clone, Debug)]
pub struct UnmatchedCall {
    /// The call.
    pub call: TraceCall,
    /// The kernel's name, if the call has it.
    pub name: Option<Rc<str>>,
    /// Blocks in x, y and z.
    pub grid: Option<[u32; 3]>,
    /// Threads of a block in x, y and z.
    pub block: Option<[u32; 3]>,
    /// The op around the call, by place.
    pub op: Option<usize>,
}

/// Requests of one launch: accesses of one warp by one instruction.
#[derive(Clone, Copy, Debug, Default)]
pub struct LaunchRequests {
    /// Requests with rows.
    pub rows: u64,
    /// Lanes of those.
    pub lanes: u64,
    /// Requests without rows.
    pub lost: u64,
}

/// A row of a warp request.
#[derive(Clone, Debug)]
pub struct TraceAccess {
    /// The kernel, by place.
    pub kernel: usize,
    /// Offset of the instruction in its function.
    pub pc: u32,
    /// Linear block index.
    pub block: u64,
    /// Warp in the block.
    pub warp: u16,
    /// Position of the request among those of its launch.
    pub sequence: u64,
    /// Its kind.
    pub kind: AccessKind,
    /// The address space.
    pub space: Space,
    /// Bytes that a lane accesses.
    pub bytes: u8,
    /// Active lanes.
    pub lane_mask: u32,
    /// Lowest address.
    pub address: u64,
    /// Bytes from there to past the last one.
    pub span_bytes: u64,
    /// Bytes from lane to lane. None if lanes are irregular.
    pub stride_bytes: Option<i32>,
    /// Distances of lanes, shifted right. None if lanes are regular.
    pub offsets: Option<Box<[u32]>>,
    /// Bits of that shift.
    pub offset_shift: u8,
}

impl TraceKernel {
    /// The time of its launch call, else of its begin on the GPU.
    pub fn called_ns(&self) -> i64 {
        let begin_ns = self.time_ns.map(|(begin, _)| begin).or(self.begin_ns);
        self.call.map(|call| call.begin_ns).or(begin_ns).unwrap_or(0)
    }
}

/// A copy, a fill or a wait.
#[derive(Debug)]
pub struct TraceActivity {
    /// Its process, by place.
    pub process: usize,
    /// Its kind.
    pub kind: ActivityKind,
    /// CUDA's device ordinal.
    pub device: Option<i32>,
    /// The stream, by the source's number.
    pub stream: Option<u64>,
    /// Begin.
    pub begin_ns: i64,
    /// End.
    pub end_ns: Option<i64>,
    /// Bytes.
    pub bytes: Option<u64>,
    /// The direction of a copy.
    pub copy: Option<CopyKind>,
    /// The other device of a copy between two.
    pub peer: Option<i32>,
    /// The kind of a wait.
    pub wait: Option<SynchronizationKind>,
    /// The source's number of the call.
    pub correlation: Option<u64>,
    /// The call. None if the source does not have it.
    pub call: Option<TraceCall>,
    /// The name of that call, if the source has it.
    pub call_name: Option<Rc<str>>,
    /// The memory of both sides of a copy, in the source's words.
    pub memory: Option<Rc<str>>,
    /// The op around the call, by place.
    pub op: Option<usize>,
}

impl TraceActivity {
    /// A wait for the GPU of which the source has the call only.
    pub fn for_wait(
        process: usize,
        kind: SynchronizationKind,
        call: TraceCall,
        correlation: Option<u64>,
    ) -> Self {
        Self {
            process,
            kind: ActivityKind::Synchronization,
            device: None,
            stream: None,
            begin_ns: call.begin_ns,
            end_ns: Some(call.end_ns),
            bytes: None,
            copy: None,
            peer: None,
            wait: Some(kind),
            correlation,
            call: Some(call),
            call_name: None,
            memory: None,
            op: None,
        }
    }
}

/// A frame of a Python stack.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TraceFrame {
    /// The file.
    pub file: String,
    /// The function.
    pub function: String,
    /// The line that the source has.
    pub line: u32,
}

/// An allocation of the framework.
#[derive(Debug)]
pub struct TraceStorage {
    /// Its process, by place.
    pub process: usize,
    /// CUDA's device ordinal.
    pub device: i32,
    /// First address.
    pub address: u64,
    /// Bytes.
    pub bytes: u64,
    /// Bytes that the program asked for, if the source has both.
    pub requested: Option<u64>,
    /// Time of allocation. None if it is older than the recording.
    pub alloc_ns: Option<i64>,
    /// Time of the free.
    pub free_ns: Option<i64>,
    /// The op around the allocation, by place.
    pub op: Option<usize>,
}

/// An allocation of the driver for the framework.
#[derive(Debug)]
pub struct TraceSegment {
    /// Its process, by place.
    pub process: usize,
    /// CUDA's device ordinal.
    pub device: i32,
    /// First address.
    pub address: u64,
    /// Bytes.
    pub bytes: u64,
    /// Time of allocation. None if it is older than the recording.
    pub alloc_ns: Option<i64>,
    /// Time of the free.
    pub free_ns: Option<i64>,
}

/// An allocation of the framework that failed.
#[derive(Debug)]
pub struct TraceFailure {
    /// Its process, by place.
    pub process: usize,
    /// CUDA's device ordinal.
    pub device: i32,
    /// Its time.
    pub time_ns: i64,
    /// Bytes of the allocation.
    pub bytes: Option<u64>,
    /// Bytes that were free on the device.
    pub free_bytes: Option<u64>,
    /// The op around it, by place.
    pub op: Option<usize>,
}

/// A hardware counter of a kernel.
#[derive(Debug)]
pub struct TraceCounter {
    /// The kernel, by place.
    pub kernel: usize,
    /// The metric's name.
    pub metric: Rc<str>,
    /// Its value.
    pub value: Option<f64>,
    /// Its unit.
    pub unit: String,
}

/// A number that the program gave to a region, such as its operations.
#[derive(Debug)]
pub struct RegionNumber {
    /// The region, by place among the ops.
    pub op: usize,
    /// The number's name.
    pub name: Rc<str>,
    /// Its value.
    pub value: f64,
    /// Its unit, if known.
    pub unit: Option<&'static str>,
}

/// The samples of one kernel as a whole.
#[derive(Debug)]
pub struct KernelSampling {
    /// The run of the samples, by place among the processes.
    pub process: usize,
    /// The kernel, by place.
    pub kernel: usize,
    /// GPU cycles between two samples of one multiprocessor.
    pub period_cycles: Option<u64>,
    /// Samples taken.
    pub taken: u64,
    /// Samples without a row.
    pub lost: u64,
}

/// Samples at one instruction for one reason.
#[derive(Debug)]
pub struct TraceSample {
    /// The run of the samples, by place among the processes.
    pub process: usize,
    /// The kernel, by place.
    pub kernel: usize,
    /// The mangled name of the function that holds the instruction.
    pub function: Rc<str>,
    /// Offset of the instruction in that function.
    pub pc: u32,
    /// The stall reason, as CUPTI names it.
    pub reason: Rc<str>,
    /// Samples of a warp in this state.
    pub samples: u64,
    /// Samples among them of cycles in which the scheduler issued nothing.
    pub not_issued: u64,
}
