//! The tables that machine code gives, declared like those that a capture holds.

use stallmap_schema::id::{FunctionId, Pc};

stallmap_schema::tables! {
    /// What is known of the code of one function.
    ///
    /// Every function of the table `function` has a row, and so has every other function in their sections.
    FunctionCode "function_code" key [function_id] sort [] {
        /// The function.
        function_id: FunctionId => "function"."function_id",
        /// The kernel in whose section its code lies, or the function itself: the launched one.
        kernel_function_id: Option<FunctionId> => "function"."function_id",
        /// Whether its code was read.
        is_read: bool,
        /// Why it was not; null where it was.
        reason: Option<String>,
        /// Instructions.
        instruction_count: u32,
        /// Those whose operation is not known: nothing is said of what they read and write.
        unknown_count: u32,
        /// Basic blocks.
        block_count: u32,
        /// Instructions that access device memory and that recording with the space global observes; asynchronous copies
        /// to shared memory too.
        global_access_count: u32,
        /// Instructions that access shared memory and that recording with the space shared observes.
        shared_access_count: u32,
        /// Instructions that access local memory and that recording with the space local observes.
        local_access_count: u32,
        /// Instructions that access shared memory and that no recording observes: matrices, and shared memory of other
        /// blocks.
        unpatched_shared_access_count: u32,
        /// Instructions that access other memory and that no recording observes: tensor maps, bulk copies, textures.
        unpatched_access_count: u32,
    }
    /// One instruction of one function, in machine code.
    Instruction "instruction" key [function_id, pc] sort [] {
        /// The function.
        function_id: FunctionId => "function"."function_id",
        /// Bytes from the function's start.
        pc: Pc,
        /// The first pc of its basic block, as in `basic_block`; null where it is in none.
        block: Option<Pc>,
        /// Name without modifiers, such as LDG; null where the operation is not known.
        mnemonic: Option<String>,
        /// Which unit executes it: alu, fma, half, double, tensor, special, uniform, constant, global, local, shared,
        /// texture, async, shuffle, sync, control, misc, unknown.
        class: String,
        /// Guard, name, bits of a memory access, registers written `<-` registers read.
        text: String,
        /// The predicate that lets it execute; null where it always does.
        guard: Option<String>,
        /// Registers that it writes.
        writes: String,
        /// Registers that it reads, its guard among them.
        reads: String,
        /// Which memory it accesses: global, generic, local, shared, constant, texture, tensor memory; null where none.
        memory_space: Option<String>,
        /// What it does there: read, write, atomic, reduction, copy in, copy out, prefetch.
        memory_kind: Option<String>,
        /// Bytes a lane; null where the instruction does not say.
        memory_bytes: Option<u32>,
        /// The barrier that is held until its result is written.
        write_barrier: Option<u8>,
        /// The barrier that is held until its sources are read.
        read_barrier: Option<u8>,
        /// Bit n: it issues only when barrier n is zero.
        wait_mask: u8,
        /// Cycles until the warp's next instruction may issue.
        stall_cycles: u8,
        /// Whether its operation is known.
        is_known: bool,
        /// The source file; null where the cubin has no lines.
        file: Option<String>,
        /// The line in it.
        line: Option<u32>,
        /// The functions inlined around it, innermost first, each with the line that calls it, one a line of text; null
        /// where there are none.
        call_path: Option<String>,
        /// Where among the kernel's parameters the tensor map of its copy is, bytes; null where it is no such copy, or
        /// where that is not known.
        parameter_offset: Option<u32>,
    }
    /// Instructions of one function that are always executed one after the other.
    BasicBlock "basic_block" key [function_id, block] sort [] {
        /// The function.
        function_id: FunctionId => "function"."function_id",
        /// Its first instruction.
        block: Pc,
        /// Its last instruction.
        last_pc: Pc,
        /// Instructions.
        instruction_count: u32,
        /// How many blocks may follow; see `basic_block_edge`.
        successor_count: u32,
    }
    /// One block that may follow another.
    BasicBlockEdge "basic_block_edge" key [function_id, block, successor_function_id, successor] sort [] {
        /// The function.
        function_id: FunctionId => "function"."function_id",
        /// The block.
        block: Pc,
        /// The function of the block that may follow: another where the edge is a call or a return.
        successor_function_id: FunctionId => "function"."function_id",
        /// The block that may follow.
        successor: Pc,
    }
    /// One instruction that another may wait for, as far as the code says.
    ///
    /// An instruction that accesses memory has one more row, in which it waits for its own unit's queue.
    ProducerCandidate "producer_candidate" key [function_id, pc, wait, producer_function_id, producer_pc, link] sort [] {
        /// The function.
        function_id: FunctionId => "function"."function_id",
        /// The instruction that waits.
        pc: Pc,
        /// For what: long_scoreboard, short_scoreboard, stores (drain and membar), queue (throttles).
        wait: String,
        /// The function of the instruction that it waits for: another where a call lies between them.
        producer_function_id: FunctionId => "function"."function_id",
        /// The instruction that it waits for.
        producer_pc: Pc,
        /// Which memory that one accesses, as in `instruction`; mbarrier where it tests or sets one, and no copy is known
        /// to arrive there; none where it accesses no memory.
        producer_space: String,
        /// Which unit executes it, as in `instruction`.
        producer_class: String,
        /// How the two depend on each other: reads, overwrites, reuses (writes what the other reads), barrier, group,
        /// mbarrier, store, itself.
        link: String,
        /// The fewest cycles of issue between them; null for groups of copies and copies of other warps.
        distance_cycles: Option<u32>,
        /// Its part of the wait: sums to 1 over a waiter's candidates of a wait.
        weight: f64,
        /// How sure it is: exact, refined (by registers), shared (one of several), approximate, low.
        confidence: String,
        /// A sentence that says why.
        explanation: String,
    }
    /// A tensor-map copy and the kernel parameter that its tensor map is.
    TensorMapUse "tensor_map_use" key [function_id, pc, parameter_offset] sort [] {
        /// The function.
        function_id: FunctionId => "function"."function_id",
        /// The copy.
        pc: Pc,
        /// The kernel whose parameter it is: another function where the copy is in one that the kernel calls.
        kernel_function_id: FunctionId => "function"."function_id",
        /// Where the tensor map is among that kernel's parameters, bytes, as in `tensor_map`.
        parameter_offset: u32,
    }
}
