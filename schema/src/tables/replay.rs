//! Kernel replay: bundles of launches, results of their replays, counters.
//!
//! A bundle is all that one launch needs to run again in another process: its code (`module`), its parameters
//! (`launch_parameter`), its shape (`launch`), and the memory that it reads and writes, in pages of 4096 bytes.

use crate::cell::Blob;
use crate::id::{Address, FunctionId, KernelId, Pc, RunId};
use crate::word::{AblationTarget, BundleMethod, RedirectMethod, RedirectTarget, ReplayResult};

/// Bytes of a page of a bundle.
pub const PAGE_BYTES: usize = 4096;

crate::tables! {
    /// One launch that was selected for replay, with its memory or with the reason why it cannot be replayed.
    Bundle "bundle" key [kernel_id] sort [kernel_id] {
        /// The launch.
        kernel_id: KernelId => "launch"."kernel_id",
        /// The run that recorded it.
        run_id: RunId => "run"."run_id",
        /// The reason that it cannot be replayed. Null for a bundle.
        refusal: Option<String>,
        /// The source of its pages. Null where it is not a bundle.
        method: Option<BundleMethod>,
        /// Pages that it reads or writes: its rows in `bundle_page`.
        page_count: u64,
        /// Pages that it writes or changes.
        written_page_count: u64,
        /// Pages whose contents no earlier bundle of the run had.
        new_page_count: u64,
        /// True if its blocks wait for each other (a cooperative launch).
        is_cooperative: bool,
        /// The launch's attributes, 72 bytes each as CUlaunchAttribute has them. Empty without any.
        attributes: Blob,
        /// Largest dynamic shared memory that the function was allowed. Null where the driver did not report it.
        max_dynamic_shared_bytes: Option<i32>,
        /// The function's preferred shared memory carveout in percent, -1 for the driver's choice. Null where not
        /// reported.
        shared_carveout: Option<i32>,
        /// Time that the program waited while its memory was saved and compared, nanoseconds.
        record_ns: i64,
    }
    /// One page of memory that a bundled launch reads or writes.
    BundlePage "bundle_page" key [kernel_id, address] sort [kernel_id, address] {
        /// The launch.
        kernel_id: KernelId => "bundle"."kernel_id",
        /// Its first address, a multiple of 4096.
        address: Address,
        /// Its content before the launch.
        content_id: u64 => "bundle_content"."content_id",
        /// First eight bytes of the BLAKE3 hash of its content after the launch. Null where the launch does not write it.
        hash_after: Option<u64>,
        /// Its content after the launch, where atomics wrote it: their order may change the last bits of sums.
        content_after_id: Option<u64> => "bundle_content"."content_id",
        /// Its content after the launch where other instructions wrote it, with `--replay-values`.
        written_content_id: Option<u64> => "bundle_content"."content_id",
    }
    /// A part of a module's variable (`__device__` or `__constant__`) before a bundled launch.
    BundleSymbol "bundle_symbol" key [kernel_id, symbol, offset_bytes] sort [kernel_id, symbol, offset_bytes] {
        /// The launch.
        kernel_id: KernelId => "bundle"."kernel_id",
        /// The variable's mangled name. Its address differs from process to process.
        symbol: String,
        /// Offset of the part in the variable, a multiple of 4096.
        offset_bytes: u64,
        /// Bytes of the part: 4096, or the rest of the variable.
        size_bytes: u32,
        /// Its content before the launch. A shorter part is followed by zeros.
        content_id: u64 => "bundle_content"."content_id",
        /// Hash of its content after the launch, zeros too, as in `bundle_page`. Null where the content did not change.
        hash_after: Option<u64>,
    }
    /// The content of pages, each stored once.
    BundleContent "bundle_content" key [content_id] sort [content_id] {
        /// The content.
        content_id: u64,
        /// First eight bytes of its BLAKE3 hash, little endian.
        hash: u64,
        /// 4096 bytes.
        bytes: Blob,
    }
    /// One replay of a bundled launch.
    Replay "replay" key [run_id, ordinal] sort [run_id, ordinal] {
        /// The run that replayed it.
        run_id: RunId => "run"."run_id",
        /// Position among all launches of that run, as in `launch_run`.
        ordinal: u64,
        /// The launch.
        kernel_id: KernelId => "bundle"."kernel_id",
        /// The n-th replay of this launch in the run, from 0.
        repeat: u32,
        /// The comparison of its memory with that of the launch.
        result: ReplayResult,
        /// Pages that were compared with the launch's.
        checked_page_count: u64,
        /// Compared pages that differ.
        different_page_count: u64,
        /// Differing pages that may differ: they differ between two replays without an instrument too, or atomics wrote
        /// them and their float32 numbers differ by less than 1e-4 of themselves or 1e-5 of the largest that differs.
        unstable_page_count: u64,
        /// True if memory lies at other addresses than recorded, with pointers in the parameters translated.
        is_translated: bool,
        /// Time of the kernel on the GPU, nanoseconds, between two events. Null under an instrument.
        duration_ns: Option<u64>,
        /// The failure, where there was one.
        detail: Option<String>,
    }
    /// One hardware counter of one replay.
    Counter "counter" key [run_id, kernel_id, repeat, metric] sort [kernel_id, metric, run_id, repeat] {
        /// The run.
        run_id: RunId => "run"."run_id",
        /// The launch.
        kernel_id: KernelId => "bundle"."kernel_id",
        /// The n-th measurement of this launch in the run, from 0; it takes several replays.
        repeat: u32,
        /// The metric's name, as in ncu.
        metric: String,
        /// Its value. Null where the hardware gave none (a ratio whose divisor is 0).
        value: Option<f64>,
        /// Its unit, as CUPTI names it and never scaled: bytes, not Kbytes.
        unit: String,
    }
    /// An experiment: replays of a launch without some of its memory instructions, in turn with replays of the whole. An
    /// instruction that is left out is issued and waited for as before, and accesses nothing.
    Ablation "ablation" key [run_id, kernel_id, experiment, is_cold] sort [kernel_id, experiment, is_cold, run_id] {
        /// The run.
        run_id: RunId => "run"."run_id",
        /// The launch.
        kernel_id: KernelId => "bundle"."kernel_id",
        /// The n-th experiment on this launch in the run, from 0.
        experiment: u32,
        /// The instructions that are left out: their rows in `ablation_instruction`.
        target: AblationTarget,
        /// First address of the block of memory whose accesses are left out. Null for other targets.
        block_address: Option<Address>,
        /// True if caches were flushed before each replay.
        is_cold: bool,
        /// Replays of each of the two.
        round_count: u32,
        /// Time of the whole launch, nanoseconds, between two events: the median.
        whole_ns: Option<f64>,
        /// Time without the instructions: the median.
        without_ns: Option<f64>,
        /// Time that the instructions cost: the median of the differences within a round. Null where nothing was
        /// measured.
        saved_ns: Option<f64>,
        /// Lower end of the interval that holds that median with a probability of 95 %. Null below 6 rounds.
        saved_low_ns: Option<f64>,
        /// Upper end of it.
        saved_high_ns: Option<f64>,
        /// The reason that the instructions cannot be left out, or that nothing was measured.
        refusal: Option<String>,
    }
    /// One experiment on one launch with one state of the caches: replays in which an object that the launch reads is in
    /// L2, in turn with replays of the launch as it was. The time saved is the cost of device memory for it.
    ObjectRedirect "redirect" key [run_id, kernel_id, experiment, is_cold] sort [kernel_id, experiment, is_cold, run_id] {
        /// The run.
        run_id: RunId => "run"."run_id",
        /// The launch.
        kernel_id: KernelId => "bundle"."kernel_id",
        /// The n-th experiment on this launch in the run, from 0.
        experiment: u32,
        /// One object, or all.
        target: RedirectTarget,
        /// The way into L2. Null where the experiment is refused.
        method: Option<RedirectMethod>,
        /// First address of the object's block of memory. Null for all.
        block_address: Option<Address>,
        /// Bytes of its pages that the launch reads.
        object_bytes: u64,
        /// Bytes of these that were in L2. Granules at its borders hold other objects too.
        redirected_bytes: u64,
        /// True if caches were flushed before each replay.
        is_cold: bool,
        /// Replays of each of the two.
        round_count: u32,
        /// Time of the launch, nanoseconds, between two events: the median.
        whole_ns: Option<f64>,
        /// Time with the object in L2: the median.
        redirected_ns: Option<f64>,
        /// Cost of device memory: the median of the differences within a round. Null where nothing was measured.
        saved_ns: Option<f64>,
        /// Lower end of the interval that holds that median with a probability of 95 %. Null below 6 rounds.
        saved_low_ns: Option<f64>,
        /// Upper end of it.
        saved_high_ns: Option<f64>,
        /// The reason that nothing was measured.
        refusal: Option<String>,
    }
    /// An instruction that an experiment leaves out.
    AblationInstruction "ablation_instruction" key [run_id, kernel_id, experiment, function_id, pc] sort [kernel_id, experiment, function_id, pc, run_id] {
        /// The run.
        run_id: RunId => "run"."run_id",
        /// The launch.
        kernel_id: KernelId => "bundle"."kernel_id",
        /// The experiment.
        experiment: u32,
        /// The instruction's function.
        function_id: FunctionId => "function"."function_id",
        /// Its offset in the function, bytes.
        pc: Pc,
    }
}
