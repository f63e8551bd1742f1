//! Programs that XLA compiled: their modules, and the instructions that launched kernels.

use crate::id::{KernelId, PystatesHash, RunId};
use crate::word::HloMethod;

crate::tables! {
    /// One module that XLA compiled, such as jit_step.
    HloModule "hlo_module" key [hlo_module_id] sort [hlo_module_id] {
        /// The module, numbered from 0 in the order of the runs and of compilation.
        hlo_module_id: u64,
        /// The run that compiled it.
        run_id: RunId => "run"."run_id",
        /// Its name, jit_ and the function's.
        name: String,
        /// Start of its compilation, nanoseconds since the Unix epoch.
        begin_ns: i64,
        /// End of its compilation.
        end_ns: i64,
        /// Instructions of all its computations, those too that launch nothing.
        instruction_count: u64,
        /// The Python stack of the call that compiled it. Null where it is not known.
        pystates_hash: Option<PystatesHash>,
    }
    /// One instruction that launched a kernel.
    HloInstruction "hlo_instruction" key [hlo_module_id, instruction_id] sort [hlo_module_id, instruction_id] {
        /// The module.
        hlo_module_id: u64 => "hlo_module"."hlo_module_id",
        /// XLA's number of the instruction, unique in the module.
        instruction_id: u64,
        /// Its name, such as loop_add_fusion.3.
        name: String,
        /// Its operation, such as fusion or custom-call.
        opcode: String,
        /// The library that it calls, such as __cublas$gemm. Null where it calls none.
        call_target: Option<String>,
        /// The computation that holds it, such as main.10 or the body of a loop.
        computation: String,
        /// JAX's path of the operation, such as jit(step)/jvp(Model)/Dense_0/dot_general. Null where XLA added it.
        op_name: Option<String>,
        /// The Python stack at which it was traced. For what XLA added, that of a neighbor, null where none has one.
        pystates_hash: Option<PystatesHash>,
    }
    /// One source of an instruction: the operations that it computes which were traced at one line.
    HloSource "hlo_source" key [hlo_module_id, instruction_id, position] sort [hlo_module_id, instruction_id, position] {
        /// The module.
        hlo_module_id: u64 => "hlo_module"."hlo_module_id",
        /// The instruction, as in `hlo_instruction`.
        instruction_id: u64,
        /// Position among the instruction's sources, from 0: the root's first, then by weight.
        position: u32,
        /// Share of the instruction's operations. Those of all sources add up to 1.
        weight: f64,
        /// Operations.
        operation_count: u32,
        /// JAX's path of one of the operations. Null where XLA added them.
        op_name: Option<String>,
        /// The Python stack at which they were traced. Null where XLA added them.
        pystates_hash: Option<PystatesHash>,
    }
    /// The instruction of one launch.
    HloLaunch "hlo_launch" key [kernel_id] sort [kernel_id] {
        /// The launch.
        kernel_id: KernelId => "launch"."kernel_id",
        /// The module.
        hlo_module_id: u64 => "hlo_module"."hlo_module_id",
        /// The instruction, as in `hlo_instruction`. Null for a trial of the compiler.
        instruction_id: Option<u64>,
        /// The means by which it was found.
        method: HloMethod,
        /// Modules or instructions that fit, this one too. The next in the module's order was taken.
        candidate_count: u32,
    }
}
