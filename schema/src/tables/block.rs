//! Order and time inside of launches: blocks.

use crate::id::{KernelId, Pc, RunId};
use crate::word::WarpMoment;

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

    /// One moment of one warp inside of a launch: about an instruction that waits, copies or multiplies, or a loop.
    /// Recorded with `--warps-timeline`, for some blocks of a launch.
    ///
    /// The instrument takes some 50 cycles for each. A warp's last 1,024 moments are held, earlier ones are counted as lost.
    WarpEvent "warp_event" key [] sort [kernel_id, block, warp, sequence] {
        /// The run that measured it.
        run_id: RunId => "run"."run_id",
        /// The launch.
        kernel_id: KernelId => "launch"."kernel_id",
        /// Linear block index, as in `block_time`.
        block: u64,
        /// Index of the warp in its block.
        warp: u16,
        /// Its moments before this one.
        sequence: u32,
        /// The instruction, bytes from the start of the launched kernel.
        pc: Pc,
        /// The moment: the instruction is about to be issued, or it is done.
        moment: WarpMoment,
        /// Cycles of the multiprocessor since the block's begin.
        cycles: u64,
        /// The moment, by the clock of `block_time`. Nanoseconds since the Unix epoch.
        time_ns: i64,
    }
}
