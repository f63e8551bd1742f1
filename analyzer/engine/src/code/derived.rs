//! The tables of machine code, declared like those of a capture.

use stallmap_schema::id::{FunctionId, Pc};

stallmap_schema::tables! {
    /// Decoding result of one function's code.
    ///
    /// Every function of the table `function` has a row, and so has every other function in their sections.
    FunctionCode "function_code" key [function_id] sort [] {
        /// The function.
        function_id: FunctionId => "function"."function_id",
        /// The kernel whose section holds its code, or the function itself: the launched one.
        kernel_function_id: Option<FunctionId> => "function"."function_id",
        /// True if its code was decoded.
        is_read: bool,
        /// Reason why its code was not decoded. Null if it was.
        reason: Option<String>,
        /// Instructions.
        instruction_count: u32,
        /// Instructions with an unknown operation, whose reads and writes are unknown.
        unknown_count: u32,
        /// Basic blocks.
        block_count: u32,
        /// Instructions that access device memory and that recording with the space global observes, including
        /// asynchronous copies to shared memory.
        global_access_count: u32,
        /// Instructions that access shared memory and that recording with the space shared observes.
        shared_access_count: u32,
        /// Instructions that access local memory and that recording with the space local observes.
        local_access_count: u32,
        /// Instructions that access shared memory but are never observed: matrices, and shared memory of other blocks.
        unpatched_shared_access_count: u32,
        /// Instructions that access other memory but are never observed: tensor maps, bulk copies, textures.
        unpatched_access_count: u32,
    }
    /// One instruction of one function, in machine code.
    Instruction "instruction" key [function_id, pc] sort [] {
        /// The function.
        function_id: FunctionId => "function"."function_id",
        /// Bytes from the function's start.
        pc: Pc,
        /// The first pc of its basic block, as in `basic_block`. Null if it is in none.
        block: Option<Pc>,
        /// Name without modifiers, such as LDG. Null if the operation is unknown.
        mnemonic: Option<String>,
        /// Which unit executes it: alu, fma, half, double, tensor, special, uniform, constant, global, local, shared,
        /// texture, async, shuffle, sync, control, misc, unknown.
        class: String,
        /// Guard, name with modifiers as nvdisasm prints it, registers written `<-` registers read, immediate or constant.
        text: String,
        /// The predicate that enables it. Null if it always executes.
        guard: Option<String>,
        /// Registers that it writes.
        writes: String,
        /// Registers that it reads, its guard among them.
        reads: String,
        /// Memory space of its access: global, generic, local, shared, constant, texture, tensor memory. Null without
        /// one.
        memory_space: Option<String>,
        /// Kind of access: read, write, atomic, reduction, copy in, copy out, prefetch.
        memory_kind: Option<String>,
        /// Bytes per lane. Null if the instruction does not specify them.
        memory_bytes: Option<u32>,
        /// True if it asks L2, whatever L1 holds: an atomic, or a load or a copy that says so. Null without memory.
        is_past_l1: Option<bool>,
        /// The barrier that is held until its result is written.
        write_barrier: Option<u8>,
        /// The barrier that is held until its sources are read.
        read_barrier: Option<u8>,
        /// Bit n: it issues only when barrier n is zero.
        wait_mask: u8,
        /// Cycles until the warp's next instruction may issue.
        stall_cycles: u8,
        /// True if its operation is known.
        is_known: bool,
        /// The source file. Null if the cubin has no lines.
        file: Option<String>,
        /// The line in it.
        line: Option<u32>,
        /// The functions inlined around it, innermost first, each with the line that calls it, one per line of text.
        /// Null if there are none.
        call_path: Option<String>,
        /// Offset of its tensor map among the kernel's parameters, bytes. Null if it is not such a copy, or if unknown.
        parameter_offset: Option<u32>,
    }
    /// Instructions of one function that always execute in sequence.
    BasicBlock "basic_block" key [function_id, block] sort [] {
        /// The function.
        function_id: FunctionId => "function"."function_id",
        /// Its first instruction.
        block: Pc,
        /// Its last instruction.
        last_pc: Pc,
        /// Instructions.
        instruction_count: u32,
        /// Number of blocks that may follow. See `basic_block_edge`.
        successor_count: u32,
    }
    /// One block that may follow another.
    BasicBlockEdge "basic_block_edge" key [function_id, block, successor_function_id, successor] sort [] {
        /// The function.
        function_id: FunctionId => "function"."function_id",
        /// The block.
        block: Pc,
        /// The function of the block that may follow. It differs if the edge is a call or a return.
        successor_function_id: FunctionId => "function"."function_id",
        /// The block that may follow.
        successor: Pc,
    }
    /// One instruction that another may wait for, based on the code.
    ///
    /// An instruction that accesses memory has one more row, in which it waits for its own unit's queue. One that reads
    /// constant memory and waits for no barrier has another, in which it waits for its constant.
    ProducerCandidate "producer_candidate" key [function_id, pc, wait, producer_function_id, producer_pc, link] sort [] {
        /// The function.
        function_id: FunctionId => "function"."function_id",
        /// The instruction that waits.
        pc: Pc,
        /// Reason of the wait: long_scoreboard, short_scoreboard, stores (drain and membar), queue (throttles).
        wait: String,
        /// The function of the producer. It differs if a call lies between them.
        producer_function_id: FunctionId => "function"."function_id",
        /// The instruction that it waits for.
        producer_pc: Pc,
        /// Memory space that it accesses, as in `instruction`. signal if by it other warps arrive at the awaited
        /// mbarrier. mbarrier if it tests one, and no signal of it is known. none if it accesses no memory.
        producer_space: String,
        /// Which unit executes it, as in `instruction`.
        producer_class: String,
        /// Dependency between the two: reads, overwrites, reuses (writes a register that the other reads), barrier,
        /// group, mbarrier, store, itself.
        link: String,
        /// Minimum of issue cycles between them. Null for groups of copies and copies of other warps.
        distance_cycles: Option<u32>,
        /// Minimum of issue cycles since any instruction set the barrier of the wait, which counts them all. Null like
        /// `distance_cycles`.
        covered_cycles: Option<u32>,
        /// Candidates of one slot are alternatives, of which a warp executes one. Several slots are awaited together.
        slot: u32,
        /// Its part of the wait: sums to 1 over a waiter's candidates of a wait.
        weight: f64,
        /// Confidence: exact, refined (by registers), shared (one of several), approximate (not proved by the code),
        /// low.
        confidence: String,
        /// A sentence with the reason.
        explanation: String,
    }
    /// A tensor-map copy and the kernel parameter that its tensor map is.
    TensorMapUse "tensor_map_use" key [function_id, pc, parameter_offset] sort [] {
        /// The function.
        function_id: FunctionId => "function"."function_id",
        /// The copy.
        pc: Pc,
        /// The kernel with this parameter: another function if the copy is in one that the kernel calls.
        kernel_function_id: FunctionId => "function"."function_id",
        /// Offset of the tensor map among that kernel's parameters, bytes, as in `tensor_map`.
        parameter_offset: u32,
        /// Dimensions of the grid whose index in the block selects what it copies, such as `xz`. Blocks that differ in others
        /// may copy the same. Null if unknown.
        block_axes: Option<String>,
    }
    /// A copy and a pointer among the kernel's parameters: a bulk copy's address in device memory may be computed from it,
    /// or the kernel stores it into a tensor-map copy's tensor map. Or an access to a texture or surface and its handle.
    ///
    /// The distance from the pointer is not known: the copy is taken to stay within the pointer's tensor.
    PointerUse "pointer_use" key [function_id, pc, parameter_offset] sort [] {
        /// The function.
        function_id: FunctionId => "function"."function_id",
        /// The copy.
        pc: Pc,
        /// The kernel with this parameter.
        kernel_function_id: FunctionId => "function"."function_id",
        /// Offset of the pointer among that kernel's parameters, bytes. Another number of eight bytes that is added to
        /// the address has a row too.
        parameter_offset: u32,
        /// As in `tensor_map_use`.
        block_axes: Option<String>,
    }
    /// A tensor-map copy and an array of pointers among the kernel's parameters: the kernel stores a pointer of the array into
    /// the copy's tensor map.
    PointerArrayUse "pointer_array_use" key [function_id, pc, parameter_offset] sort [] {
        /// The function.
        function_id: FunctionId => "function"."function_id",
        /// The copy.
        pc: Pc,
        /// The kernel with this parameter.
        kernel_function_id: FunctionId => "function"."function_id",
        /// Offset of the array's address among that kernel's parameters, bytes.
        parameter_offset: u32,
    }
    /// A store to the memory of one pointer among the kernel's parameters of an address that is computed from another: it
    /// makes arrays of pointers for other kernels.
    PointerStoreUse "pointer_store" key [function_id, pc, parameter_offset, stored_offset] sort [] {
        /// The function.
        function_id: FunctionId => "function"."function_id",
        /// The store.
        pc: Pc,
        /// The kernel with these parameters.
        kernel_function_id: FunctionId => "function"."function_id",
        /// Offset of the pointer to the memory that it writes among that kernel's parameters, bytes.
        parameter_offset: u32,
        /// Offset of the pointer that it stores.
        stored_offset: u32,
    }
    /// An access to device memory and a pointer among the kernel's parameters that is a term of its address, by any path.
    ///
    /// The code proves it: the memory that was meant is the pointer's, if no other row of the access has a pointer. Accesses
    /// whose addresses are loaded from memory have no rows.
    AccessPointerUse "access_pointer_use" key [function_id, pc, parameter_offset] sort [] {
        /// The function.
        function_id: FunctionId => "function"."function_id",
        /// The access.
        pc: Pc,
        /// The kernel with this parameter.
        kernel_function_id: FunctionId => "function"."function_id",
        /// Offset of the pointer among that kernel's parameters, bytes. Another number of eight bytes that is added to
        /// the address has a row too.
        parameter_offset: u32,
    }
    /// One instruction of the work before a signal: before a warp arrives at an mbarrier that other warps wait for.
    ///
    /// In a loop it is the work since the signal before, else since the start. See `producer`.
    SignalWork "signal_work" key [function_id, pc, work_function_id, work_pc] sort [] {
        /// The function.
        function_id: FunctionId => "function"."function_id",
        /// The instruction that arrives at the mbarrier.
        pc: Pc,
        /// The function of the work. It differs if it is called before the signal.
        work_function_id: FunctionId => "function"."function_id",
        /// An instruction of the work.
        work_pc: Pc,
    }
    /// An instruction that reads shared memory, and one that may have filled it.
    ///
    /// Found by their addresses: a read belongs to the copies and stores whose shared memory begins at the greatest
    /// number up to its own. No rows if no instruction of the section fills shared memory, or too many do.
    SharedFill "shared_fill" key [function_id, pc, fill_function_id, fill_pc] sort [] {
        /// The function.
        function_id: FunctionId => "function"."function_id",
        /// The instruction that reads shared memory.
        pc: Pc,
        /// The function of the fill.
        fill_function_id: FunctionId => "function"."function_id",
        /// The copy, or the load whose result was stored. Else the store.
        fill_pc: Pc,
        /// copy: an asynchronous copy. load: a load and a store of its result, or of this in another type. computed: a store of a
        /// computed value. The fills are the loads that it was computed from, or the store if there are none.
        kind: String,
        /// Its part of the content: sums to 1 over the fills of a read.
        share: f64,
    }
    /// Barriers of the block that a warp passes from one access to shared memory to the next, by the code.
    ///
    /// Only kernels whose warps are ordered by nothing else have rows: no calls, no barrier objects, no barriers for a
    /// part of the block, no fences, no atomics of shared memory whose result is used.
    BarrierStep "barrier_step" key [function_id, pc, next_pc] sort [] {
        /// The function.
        function_id: FunctionId => "function"."function_id",
        /// The access. Null for the start of the kernel.
        pc: Option<Pc>,
        /// An access that may be the next.
        next_pc: Pc,
        /// True if that is an asynchronous copy (`cp.async`): it writes until a wait.
        is_copy: bool,
        /// Barriers on the way. Null if the paths between the two have different numbers.
        barrier_count: Option<u32>,
        /// True if the lanes of the warp meet on the way: at barriers, `__syncwarp`, or exchanges between lanes.
        has_warp_sync: bool,
        /// Groups of asynchronous copies (`cp.async`) that are closed on the way. Null if paths differ in these or in waits for them.
        group_count: Option<u32>,
        /// Groups that may be left of all that were closed until the next access, by a wait on the way. Null if there is none.
        group_limit: Option<u32>,
        /// Barriers on the way before the wait.
        wait_barrier_count: Option<u32>,
    }
}
