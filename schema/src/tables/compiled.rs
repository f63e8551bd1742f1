//! Kernels that a compiler wrote while the program ran: the operations that they compute, and their own source.

use crate::id::{FrameId, PystatesHash};
use crate::word::Phase;

crate::tables! {
    /// An operation of the program that the kernel of one line of generated code computes. The weights of a line add up
    /// to 1.
    CompiledOrigin "compiled_origin" key [frame_id, rank] sort [frame_id, rank] {
        /// The line of generated code, which calls the kernel.
        frame_id: FrameId => "python_frame"."frame_id",
        /// 0 for the operation that stands for the kernel: that of a library or a template, else of the line with the
        /// greatest weight.
        rank: u32,
        /// Name with overload, such as aten::addmm.default.
        op: String,
        /// The phase of the training step. Null where only the name is known.
        phase: Option<Phase>,
        /// In backward, the forward operation whose gradient this one computes.
        forward_op: Option<String>,
        /// Dotted path of the module, in backward of the module whose gradient this is.
        module_path: Option<String>,
        /// The Python stack inside the compiled function, in backward that of the forward operation. Null where only the
        /// name is known.
        pystates_hash: Option<PystatesHash>,
        /// Share of the kernel: operations of a kernel count equally.
        weight: f64,
    }
    /// A compiled version of a Triton kernel, as it was launched.
    TritonKernel "triton_kernel" key [name, file, line, signature, configuration] sort [name, file, line, signature, configuration] {
        /// Name of the kernel, as `op.name` has it.
        name: String,
        /// File of its source, as Python named it.
        file: String,
        /// Its first line there.
        line: u32,
        /// Types of its parameters, such as x: *fp32, n: i32.
        signature: String,
        /// Its constants and options, such as BLOCK: 1024, num_warps: 4.
        configuration: String,
    }
}
