//! Operators, storages and tensors of PyTorch.

use crate::id::{Address, OpId, PystatesHash, RunId, StorageId, TensorId};
use crate::word::{Direction, OpKind, Phase, RangeSource, StorageOrigin};

crate::tables! {
    /// One call of an operator, or one region named by the user.
    Op "op" key [op_id] sort [op_id] {
        /// The op.
        op_id: OpId,
        /// The run.
        run_id: RunId => "run"."run_id",
        /// The kind of call.
        kind: OpKind,
        /// Name with overload, such as aten::addmm.default. The operation in JAX. The kernel's or the region's name otherwise.
        name: String,
        /// The op or region that encloses it on the same thread.
        parent_op_id: Option<OpId> => "op"."op_id",
        /// The thread, numbered as in launch_run.
        thread_id: u32,
        /// Start of the call, nanoseconds since the Unix epoch.
        begin_ns: i64,
        /// End of the call. Null where the process died inside it.
        end_ns: Option<i64>,
        /// The phase of the training step.
        phase: Phase,
        /// Optimizer steps finished before the op, from 0.
        step: u32,
        /// Autograd's sequence number, which a forward op shares with its backward node.
        sequence_number: Option<i64>,
        /// The autograd node that runs, such as AddmmBackward0. Null in forward ops.
        autograd_node: Option<String>,
        /// The forward op whose gradient this one computes.
        forward_op_id: Option<OpId> => "op"."op_id",
        /// Dotted path of the innermost nn.Module, such as h.2.mlp, or of JAX's named scopes. Null outside modules.
        module_path: Option<String>,
        /// The Python stack of the call. In backward, that of the call of backward().
        pystates_hash: Option<PystatesHash>,
    }
    /// One allocation of the framework's allocator, from its allocation to its free: half-open in both times.
    Storage "storage" key [storage_id] sort [storage_id] {
        /// The storage. Addresses are reused, storage_ids are not.
        storage_id: StorageId,
        /// The run.
        run_id: RunId => "run"."run_id",
        /// CUDA's device ordinal.
        device_id: i32,
        /// First address.
        address: Address,
        /// Bytes, as the allocator rounded them.
        size_bytes: u64,
        /// Time of allocation, nanoseconds since the Unix epoch, or of first use where `origin` is `tensor`.
        alloc_ns: i64,
        /// Time of the free. Null where it was never freed.
        free_ns: Option<i64>,
        /// Ordinal of the first launch that can use it, 0 where it was allocated before recording.
        alloc_ordinal: u64,
        /// Ordinal of the first launch that cannot use it any more. Null where it was never freed.
        free_ordinal: Option<u64>,
        /// The source that reported it first.
        origin: StorageOrigin,
        /// The op that was running at its allocation.
        op_id: Option<OpId> => "op"."op_id",
    }
    /// One view of a storage: all tensors of one storage with equal offset, sizes, strides and type are one.
    Tensor "tensor" key [tensor_id] sort [tensor_id] {
        /// The tensor.
        tensor_id: TensorId,
        /// The run.
        run_id: RunId => "run"."run_id",
        /// Its storage.
        storage_id: StorageId => "storage"."storage_id",
        /// The tensor that it is a view of. Null where it is not a view.
        base_tensor_id: Option<TensorId> => "tensor"."tensor_id",
        /// The op that first returned it. Null where it was first seen as an argument.
        op_id: Option<OpId> => "op"."op_id",
        /// Address of its first element.
        address: Address,
        /// Element type, PyTorch's name without the prefix, such as bfloat16.
        dtype: String,
        /// Bytes of an element.
        element_bytes: u32,
        /// Elements in each dimension.
        sizes: Vec<i64>,
        /// Elements between neighbours in each dimension.
        strides: Vec<i64>,
        /// Bytes from the first to past the last element, by sizes and strides.
        span_bytes: u64,
        /// True if it is contiguous in its dimensions' order.
        is_contiguous: bool,
        /// Dotted name of the parameter or buffer that it is, such as h.2.mlp.c_fc.weight, or of its gradient. In JAX, the
        /// path of an argument or result, such as `params['head']['kernel']`, or the HLO instruction that makes it.
        name: Option<String>,
        /// Its role in the model: parameter, gradient, buffer, optimizer_state. In JAX: argument, result, temporary. Null
        /// for other tensors.
        role: Option<String>,
    }
    /// One input of an op, as a source without tensors has it: a shape, and no address.
    OpInput "op_input" key [op_id, position, element] sort [op_id, position, element] {
        /// The op.
        op_id: OpId => "op"."op_id",
        /// Position among the inputs, from 0.
        position: u32,
        /// Position in a list of tensors, from 0. It is 0 for every other input.
        element: u32,
        /// Element type of a tensor, PyTorch's name without the prefix, such as bfloat16. Null in lists of tensors, and for
        /// other inputs.
        dtype: Option<String>,
        /// Elements in each dimension. Empty for other inputs than tensors.
        sizes: Vec<i64>,
        /// Elements between neighbours in each dimension. Empty where the source lacks them.
        strides: Vec<i64>,
        /// The value of an input that is no tensor, as the source writes it. Null where the source lacks it.
        value: Option<String>,
    }
    /// A tensor's part in an op.
    OpTensor "op_tensor" key [op_id, direction, position, element] sort [op_id, direction, position, element] {
        /// The op.
        op_id: OpId => "op"."op_id",
        /// Argument, result, or an argument that is written.
        direction: Direction,
        /// Position among the arguments or results, from 0.
        position: u32,
        /// Position in a list of tensors, from 0. It is 0 for an argument that is a tensor.
        element: u32,
        /// The tensor.
        tensor_id: TensorId => "tensor"."tensor_id",
        /// The argument's name in the op's schema. Null for results.
        argument: Option<String>,
    }
    /// The origin of a region in `op`: one row for each region that a recording has.
    OpRange "op_range" key [op_id] sort [op_id] {
        /// The region.
        op_id: OpId => "op"."op_id",
        /// The interface that named it.
        source: RangeSource,
        /// The domain of NVTX, such as the library that named it. Null for the default domain, and for other sources.
        domain: Option<String>,
        /// The category of NVTX, a number of its domain. Null where it has none.
        category: Option<u32>,
    }
    /// A number that the program gave to a region: a payload of NVTX, or work of `stallmap.region`.
    OpMetric "op_metric" key [op_id, name] sort [op_id, name] {
        /// The region.
        op_id: OpId => "op"."op_id",
        /// Its name: `payload` for NVTX, such as `flops` or `bytes` for others.
        name: String,
        /// The value.
        value: f64,
        /// Its unit, such as B. Null where the program names none.
        unit: Option<String>,
    }
}
