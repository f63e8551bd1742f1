//! Enums: columns whose values come from a fixed list.
//!
//! They are stored as dictionary-encoded strings: a reader without this crate sees text, not codes.

/// Declares enums whose values are stored as text.
macro_rules! words {
    ($($(#[doc = $doc:literal])+ $name:ident { $($(#[doc = $vdoc:literal])+ $variant:ident = $word:literal,)+ })+) => {$(
        $(#[doc = $doc])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $($(#[doc = $vdoc])+ $variant,)+ }

        impl $name {
            /// Every value, in the order of declaration.
            pub const ALL: &[Self] = &[$(Self::$variant,)+];

            /// The text in a capture.
            pub const fn word(self) -> &'static str {
                match self { $(Self::$variant => $word,)+ }
            }

            /// The value of a text.
            pub fn from_word(word: &str) -> Option<Self> {
                match word { $($word => Some(Self::$variant),)+ _ => None }
            }
        }

        impl Default for $name {
            fn default() -> Self { Self::ALL[0] }
        }

        impl crate::cell::ColumnCell for $name {
            type Builder = arrow::array::StringDictionaryBuilder<arrow::datatypes::UInt8Type>;
            const NULLABLE: bool = false;
            fn data_type() -> arrow::datatypes::DataType { crate::cell::word_type() }
            fn append(self, builder: &mut Self::Builder) { builder.append_value(self.word()); }
            fn append_null(builder: &mut Self::Builder) { builder.append_null(); }
            fn read(array: &dyn arrow::array::Array, row: usize) -> Option<Self> {
                crate::cell::read_text(array, row).and_then(|word| Self::from_word(&word))
            }
            fn words() -> Option<Vec<&'static str>> { Some(Self::ALL.iter().map(|value| value.word()).collect()) }
        }
    )+};
}

words! {
    /// The instrument that a run was recorded with.
    Instrument {
        /// NVIDIA's sanitizer API: memory accesses, allocations, copies, modules.
        Accesses = "accesses",
        /// CUPTI PC sampling, kernels serialized: stall reasons.
        PcSamples = "pc_samples",
        /// CUPTI's range profiler: hardware counters.
        Counters = "counters",
        /// None: launches as they are.
        Native = "native",
        /// CUPTI's activity records, the program's own concurrency: begin and end of the work of each GPU.
        Timeline = "timeline",
        /// Copies of kernels that note when and where their blocks run.
        Blocks = "blocks",
    }
    /// A moment of a warp at an instruction.
    WarpMoment {
        /// The instruction is about to be issued: what it waits for itself is done.
        Issue = "issue",
        /// It is done.
        Done = "done",
    }
    /// The effect of an access on memory.
    AccessKind {
        /// A load.
        Read = "read",
        /// A store.
        Write = "write",
        /// A read-modify-write.
        Atomic = "atomic",
        /// A prefetch: no data reaches a register.
        Prefetch = "prefetch",
    }
    /// The pattern of a warp request's lanes.
    LanePattern {
        /// All lanes at one address, or a single lane.
        Broadcast = "broadcast",
        /// Adjacent lanes, ascending or descending.
        Unit = "unit",
        /// Equal distances from lane to lane.
        Strided = "strided",
        /// Few distances from lane to lane: up to one per four lanes.
        Tiled = "tiled",
        /// Any other pattern.
        Gather = "gather",
    }
    /// The address space of an access.
    Space {
        /// Device memory, by device virtual address.
        Global = "global",
        /// Device memory read by an asynchronous copy to shared memory (LDGSTS).
        GlobalAsync = "global_async",
        /// Memory shared in a block, by offset in the block's window.
        Shared = "shared",
        /// Memory private to a thread, by offset in the thread's window.
        Local = "local",
    }
    /// The method that matched a launch of a run with its launch of the program.
    Match {
        /// The launch defines the kernel_id: it belongs to the reference run.
        Reference = "reference",
        /// Equal in (pystates_hash, op name, function, grid, block, n-th occurrence in its thread).
        Matched = "matched",
        /// No launch of the reference run is equal. `match_reason` names the difference.
        Unmatched = "unmatched",
        /// The launch was run again from its bundle.
        Replayed = "replayed",
    }
    /// The part of a training step that an op belongs to.
    Phase {
        /// Outside backward and optimizer, with gradients or without.
        Forward = "forward",
        /// Inside the autograd engine.
        Backward = "backward",
        /// Inside an optimizer's step.
        Optimizer = "optimizer",
        /// Anything else.
        Other = "other",
    }
    /// The kind of call that an op row stands for.
    OpKind {
        /// An operator of PyTorch, as the dispatcher sees it.
        Torch = "torch",
        /// A Triton kernel launched from Python.
        Triton = "triton",
        /// A region named by the user.
        Region = "region",
        /// An operation that compiled code computes elsewhere: the forward op of kernels of a compiled backward.
        Origin = "origin",
        /// Trials of a tuner: launches inside it are not the program's work.
        Tuning = "tuning",
        /// An instruction of a program that XLA compiled, or its compilation.
        Hlo = "hlo",
    }
    /// The interface that named a region.
    RangeSource {
        /// NVTX, by any library of the process.
        Nvtx = "nvtx",
        /// `torch.profiler.record_function`.
        Torch = "torch",
        /// `stallmap.region` or `stallmap.step`.
        Stallmap = "stallmap",
    }
    /// The means by which a launch got its instruction of a compiled program.
    HloMethod {
        /// The kernel's code is the module's, and its name the instruction's.
        Kernel = "kernel",
        /// A library's kernel, by its position between kernels of the module.
        Order = "order",
        /// XLA's own NVTX range around the launch names it.
        Range = "range",
        /// Not an instruction: a trial that ran while the module was compiled.
        Tuning = "tuning",
    }
    /// The part of a tensor in an op.
    Direction {
        /// Read as an argument.
        In = "in",
        /// Returned.
        Out = "out",
        /// An argument that the op writes.
        InOut = "inout",
    }
    /// The source that reported a storage first.
    StorageOrigin {
        /// The framework's allocator reported its allocation.
        Allocator = "allocator",
        /// First seen in a tensor: its allocation was not reported (made before recording, or by another allocator).
        Tensor = "tensor",
    }
    /// Direction of a copy.
    CopyKind {
        /// Host to device.
        HostToDevice = "host_to_device",
        /// Device to host.
        DeviceToHost = "device_to_host",
        /// Device to device.
        DeviceToDevice = "device_to_device",
        /// Anything else, or not known.
        Other = "other",
    }
    /// The kind of work in a row of `gpu_activity`.
    ActivityKind {
        /// A kernel.
        Kernel = "kernel",
        /// A copy.
        Copy = "copy",
        /// A fill (memset).
        Fill = "fill",
        /// A wait: of the host, or of a stream for an event.
        Synchronization = "synchronization",
    }
    /// The kind of a collective: data that the GPUs of a group exchange.
    CollectiveKind {
        /// Each rank gets the reduction of all.
        AllReduce = "all_reduce",
        /// Each rank gets the data of all.
        AllGather = "all_gather",
        /// Each rank gets its part of the reduction of all.
        ReduceScatter = "reduce_scatter",
        /// Each rank gets a part of the data of each.
        AllToAll = "all_to_all",
        /// Each rank gets the data of one.
        Broadcast = "broadcast",
        /// One rank gets the reduction of all.
        Reduce = "reduce",
        /// One rank gets the data of all.
        Gather = "gather",
        /// Each rank gets a part of the data of one.
        Scatter = "scatter",
        /// Data goes from one rank to another.
        SendReceive = "send_receive",
        /// No data: each rank waits for all.
        Barrier = "barrier",
        /// Another kind, or not known.
        Other = "other",
    }
    /// The two sides of a wait.
    SynchronizationKind {
        /// The host, for an event.
        Event = "event",
        /// A stream, for an event.
        StreamWaitEvent = "stream_wait_event",
        /// The host, for a stream.
        Stream = "stream",
        /// The host, for all streams of a context.
        Context = "context",
        /// Another kind, or not known.
        Other = "other",
    }
    /// The kind of things that a loss row counts.
    LossKind {
        /// Launches that the run saw and did not record (selection, unsupported form).
        Launch = "launch",
        /// Warp requests that the instrument saw and that are not in the capture.
        Access = "access",
        /// Samples taken by the hardware but not collected.
        Sample = "sample",
        /// Python ops that could not be described.
        Op = "op",
        /// Tensors that could not be described.
        Tensor = "tensor",
        /// Allocations, frees, copies that were not recorded.
        Memory = "memory",
        /// Modules, functions or their code.
        Code = "code",
        /// Launch parameters.
        Parameter = "parameter",
        /// Segments cut off by a crash, and damaged frames.
        Segment = "segment",
        /// Bundles: launches selected for replay, or left out by the selection.
        Bundle = "bundle",
        /// Replays that gave no result.
        Replay = "replay",
        /// Work of a GPU whose times were measured, and are not in the capture.
        Activity = "activity",
        /// An instrument or event source that was not available.
        Source = "source",
    }
    /// The method that found the memory of a bundled launch.
    BundleMethod {
        /// Every memory instruction was observed: pages are those that its lanes touched.
        Observed = "observed",
        /// Some instructions are not observed (tensor-map and bulk copies): memory of tensor maps and the allocations
        /// that parameters point into count as read, pages that changed as written.
        Derived = "derived",
    }
    /// The memory that a redirect experiment keeps in L2.
    RedirectTarget {
        /// One object that the launch only reads: a tensor's storage, or an allocation.
        Object = "object",
        /// All objects of the launch with an experiment of their own.
        All = "all",
    }
    /// The way of an object into L2.
    RedirectMethod {
        /// Its granules of 2 MiB are mapped to few of them, which stay in L2.
        Alias = "alias",
        /// It is read into L2 before the launch.
        Preload = "preload",
        /// Some objects by one method, some by the other.
        Both = "both",
    }
    /// The instructions that an experiment leaves out.
    AblationTarget {
        /// One memory instruction.
        Instruction = "instruction",
        /// All memory instructions of one line of source code.
        Line = "line",
        /// All instructions that access one block of memory: a tensor's storage, or an allocation.
        Tensor = "tensor",
        /// All instructions that access several blocks of memory, because the blocks share instructions.
        Tensors = "tensors",
    }
    /// The result of a replay.
    ReplayResult {
        /// Every written page has the recorded hash.
        Verified = "verified",
        /// Pages differ, and only such as differ between two replays without an instrument, or sums by atomics in their
        /// last bits: order of atomics, clocks.
        Unstable = "unstable",
        /// Pages differ that should not: nothing measured in it counts.
        Different = "different",
        /// It could not be run to its end.
        Failed = "failed",
    }
}
