//! PC samples.

use crate::id::{FunctionId, KernelId, Pc, RunId};

crate::tables! {
    /// Samples of one launch that found warps at one instruction for one reason. A run that replayed the launch has the
    /// sum of its replays that verified or were unstable.
    PcSample "pc_sample" key [run_id, kernel_id, function_id, pc, stall_reason] sort [kernel_id, function_id, pc, stall_reason] {
        /// The run.
        run_id: RunId => "run"."run_id",
        /// The launch.
        kernel_id: KernelId => "launch"."kernel_id",
        /// The function that holds the instruction.
        function_id: FunctionId => "function"."function_id",
        /// The instruction.
        pc: Pc,
        /// CUPTI's name without `smsp__pcsamp_warps_issue_stalled_`, such as long_scoreboard. Unknown ones verbatim.
        stall_reason: String,
        /// Samples of a warp in this state.
        samples: u64,
        /// Samples of cycles in which the scheduler issued nothing (CUPTI's `_not_issued`). Not added to `samples`.
        samples_not_issued: u64,
    }
}
