//! Order and time inside of launches: blocks.

use crate::id::{KernelId, RunId};

crate::tables! {
    /// One block of one launch, with its measured begin and end. Recorded in a run of its own (`--blocks-timeline`).
    ///
    /// Times are those of the GPU's clock. Within a launch they compare across multiprocessors.
    BlockTime "block_time" key [] sort [kernel_id, block] {
        /// The run that measured it.
        run_id: RunId => "run"."run_id",
        /// The launch.
        kernel_id: KernelId => "launch"."kernel_id",
        /// Linear block index: x + grid_x * (y + grid_y * z).
        block: u64,
        /// The multiprocessor that ran it, by the GPU's number.
        multiprocessor: u32,
        /// Begin: its first warp is about to run the kernel's first instruction. Nanoseconds since the Unix epoch by the
        /// GPU's clock, which may differ from the host's.
        begin_ns: i64,
        /// End: its last warp is about to exit. The difference from `begin_ns` is finer than the clock.
        end_ns: i64,
    }
}
