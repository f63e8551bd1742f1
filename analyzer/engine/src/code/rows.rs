//! Rows of the machine code tables, generated from sections on demand.

use std::ops::Range;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::SchemaRef;
use datafusion::error::Result;
use stallmap_sass::instruction::{ExecutionUnit, MemoryEffect, MemorySpace, SassInstruction};
use stallmap_sass::observable::{self, MemoryInstructions};
use stallmap_sass::slice::analysis::{BarrierSignal, CodeBlock, ProducerLink, WaitClass, WaitProducer};
use stallmap_sass::slice::axes::GridAxes;
use stallmap_sass::word::INSTRUCTION_BYTES;
use stallmap_schema::id::{FunctionId, Pc};
use stallmap_schema::table::TableRow;

use super::derived::{
    AccessPointerUse, BasicBlock, BasicBlockEdge, FunctionCode, Instruction, PointerArrayUse,
    PointerStoreUse, PointerUse, ProducerCandidate, SharedFill, SignalWork, TensorMapUse,
};
use super::findings::MemoryInstruction;
use super::section::{SectionCode, SectionFunction};
use super::{AnalyzedSection, barriers, explain};

/// The columns and functions that a scan reads from a table.
#[derive(Clone, Debug)]
pub(super) struct CodeScan {
    /// The columns, by position in the table.
    pub(super) columns: Vec<usize>,
    /// Their schema.
    pub(super) schema: SchemaRef,
    /// The functions, or all.
    pub(super) functions: Option<Vec<FunctionId>>,
}

impl CodeScan {
    /// True if the scan reads a column. Expensive columns are computed only then.
    fn wants(&self, column: &str) -> bool {
        // `field_with_name` would write an error for each absent column of each row.
        self.schema.column_with_name(column).is_some()
    }

    /// True if the scan reads rows of a section.
    pub(super) fn wants_section(&self, section: &SectionCode) -> bool {
        section.functions.iter().any(|function| self.wants_function(function.function_id))
    }

    fn wants_function(&self, function_id: FunctionId) -> bool {
        self.functions.as_ref().is_none_or(|functions| functions.contains(&function_id))
    }

    fn batch<R: TableRow>(&self, rows: impl IntoIterator<Item = R>) -> Result<RecordBatch> {
        let (mut builder, mut count) = (R::Builder::default(), 0);
        for row in rows {
            row.append(&mut builder);
            count += 1;
        }
        let made = R::finish(&mut builder);
        let columns = self.columns.iter().filter_map(|&column| made.get(column).cloned()).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(count));
        Ok(RecordBatch::try_new_with_options(SchemaRef::clone(&self.schema), columns, &options)?)
    }
}

/// Rows of `function_code`.
pub(super) fn functions(analyzed: &AnalyzedSection, asked: &CodeScan) -> Result<RecordBatch> {
    let read = analyzed.sections.iter().flat_map(|section| {
        let kernel = section.kernel().map(|kernel| kernel.function_id);
        section.functions.iter().map(move |function| function_code(section, kernel, function, asked))
    });
    let missing = analyzed.missing.iter().map(|(function_id, reason)| FunctionCode {
        function_id: *function_id,
        reason: Some(reason.clone()),
        ..FunctionCode::default()
    });
    asked.batch(read.chain(missing).filter(|row| asked.wants_function(row.function_id)))
}

fn function_code(
    section: &SectionCode,
    kernel: Option<FunctionId>,
    function: &SectionFunction,
    asked: &CodeScan,
) -> FunctionCode {
    let wants_accesses = asked.schema.fields().iter().any(|field| field.name().ends_with("_access_count"));
    let accesses = if wants_accesses { accesses(section, function) } else { MemoryInstructions::default() };
    let span = section.span(function);
    let findings = &section.findings;
    FunctionCode {
        function_id: function.function_id,
        kernel_function_id: kernel.or(Some(function.function_id)),
        is_read: true,
        reason: None,
        instruction_count: count(section.offsets(function)),
        unknown_count: within(&findings.unknown, &span, |offset| *offset),
        block_count: within(&findings.blocks, &span, |block| block.first),
        global_access_count: accesses.global,
        shared_access_count: accesses.shared,
        local_access_count: accesses.local,
        unpatched_shared_access_count: accesses.matrix + accesses.remote_shared,
        unpatched_access_count: accesses.tensor_map + accesses.texture + accesses.other_uncovered,
    }
}

/// Items with an offset in a range. They are in order.
fn within<T>(items: &[T], range: &Range<u32>, offset: impl Fn(&T) -> u32) -> u32 {
    let before = |end: u32| items.partition_point(|item| offset(item) < end);
    u32::try_from(before(range.end) - before(range.start)).unwrap_or(u32::MAX)
}

/// Instructions of a function that access memory.
fn accesses(section: &SectionCode, function: &SectionFunction) -> MemoryInstructions {
    let start = function.offset as usize;
    let end = start.saturating_add(function.bytes as usize).min(section.code.len());
    section.code.get(start..end).map(|code| observable::count_memory(code, section.sm)).unwrap_or_default()
}

fn count(items: impl Iterator) -> u32 {
    u32::try_from(items.count()).unwrap_or(u32::MAX)
}

/// Rows of `barrier_step`.
pub(super) fn barrier_steps(section: &SectionCode, asked: &CodeScan) -> Result<RecordBatch> {
    let functions = section.functions.iter().filter(|function| asked.wants_function(function.function_id));
    asked.batch(functions.flat_map(|function| barriers::steps(section, function)))
}

/// Rows of `instruction`.
pub(super) fn instructions(section: &SectionCode, asked: &CodeScan) -> Result<RecordBatch> {
    let functions = section.functions.iter().filter(|function| asked.wants_function(function.function_id));
    let rows = functions.flat_map(|function| {
        section.offsets(function).filter_map(move |offset| instruction(section, function, offset, asked))
    });
    asked.batch(rows)
}

fn instruction(
    section: &SectionCode,
    function: &SectionFunction,
    offset: u32,
    asked: &CodeScan,
) -> Option<Instruction> {
    let decoded = section.instruction(offset)?;
    let text = |column: &str, text: &dyn ToString| {
        if asked.wants(column) { text.to_string() } else { String::new() }
    };
    let blocks = &section.findings.blocks;
    let block = blocks.partition_point(|block| block.first <= offset).checked_sub(1);
    let block = block.and_then(|index| blocks.get(index)).filter(|block| offset <= block.last);
    let maps = &section.findings.tensor_maps;
    let map = maps.binary_search_by_key(&offset, |map| map.offset).ok().and_then(|index| maps.get(index));
    let memory = decoded.memory;
    let line = section.lines.at(offset).next();
    Some(Instruction {
        function_id: function.function_id,
        pc: Pc(offset - function.offset),
        block: block.and_then(|block| block.first.checked_sub(function.offset)).map(Pc),
        mnemonic: decoded.mnemonic.map(str::to_owned),
        class: decoded.class.name().to_owned(),
        text: if asked.wants("text") { shown(&decoded, function, offset) } else { String::new() },
        guard: decoded.guard.map(|guard| text("guard", &guard)),
        writes: text("writes", &decoded.writes),
        reads: text("reads", &decoded.reads),
        memory_space: memory.map(|memory| memory.space.name().to_owned()),
        memory_kind: memory.map(|memory| memory.kind.name().to_owned()),
        memory_bytes: memory.map(|memory| memory.bytes).filter(|bytes| *bytes > 0),
        is_past_l1: memory.map(|memory| memory.is_past_l1),
        write_barrier: decoded.control.write_barrier,
        read_barrier: decoded.control.read_barrier,
        wait_mask: decoded.control.wait_mask,
        stall_cycles: decoded.control.stall_cycles,
        is_known: decoded.mnemonic.is_some(),
        file: line.map(|frame| frame.file.to_owned()).filter(|file| !file.is_empty()),
        line: line.map(|frame| frame.line).filter(|line| *line > 0),
        call_path: call_path(section, offset, asked),
        parameter_offset: map.map(|map| map.parameter_offset),
    })
}

/// An instruction's text, with the pc of its target.
fn shown(decoded: &SassInstruction, function: &SectionFunction, offset: u32) -> String {
    let next = i64::from(offset) + i64::from(INSTRUCTION_BYTES) - i64::from(function.offset);
    let target = decoded.displacement().map(|displacement| next + displacement);
    match target {
        Some(target) if target < 0 => format!("{decoded} -> -{:#x}", target.unsigned_abs()),
        Some(target) => format!("{decoded} -> {target:#x}"),
        None => decoded.to_string(),
    }
}

/// The inlined functions around an instruction, innermost first, each with the line that calls it.
fn call_path(section: &SectionCode, offset: u32, asked: &CodeScan) -> Option<String> {
    if !asked.wants("call_path") {
        return None;
    }
    let frames: Vec<_> = section.lines.at(offset).collect();
    let calls = frames.windows(2).filter_map(|pair| match pair {
        [inner, outer] => {
            let name = inner.function.unwrap_or("an inlined function");
            Some(format!("{name} called at {}:{}", outer.file, outer.line))
        }
        _ => None,
    });
    let path = calls.collect::<Vec<_>>().join("\n");
    Some(path).filter(|path| !path.is_empty())
}

/// Rows of `basic_block`.
pub(super) fn blocks(section: &SectionCode, asked: &CodeScan) -> Result<RecordBatch> {
    let rows = section.findings.blocks.iter().filter_map(|block| {
        let (function_id, first) = section.location(block.first)?;
        let bytes = block.last.checked_sub(block.first)?;
        asked.wants_function(function_id).then(|| BasicBlock {
            function_id,
            block: first,
            last_pc: Pc(first.0.saturating_add(bytes)),
            instruction_count: bytes / INSTRUCTION_BYTES + 1,
            successor_count: count(block.successors.iter()),
        })
    });
    asked.batch(rows)
}

/// Rows of `basic_block_edge`.
pub(super) fn edges(section: &SectionCode, asked: &CodeScan) -> Result<RecordBatch> {
    let of_block = |block: &CodeBlock| {
        let from =
            section.location(block.first).filter(|(function_id, _)| asked.wants_function(*function_id));
        let edge = move |successor: &u32| {
            let (function_id, block) = from?;
            let (successor_function_id, successor) = section.location(*successor)?;
            Some(BasicBlockEdge { function_id, block, successor_function_id, successor })
        };
        block.successors.iter().filter_map(edge).collect::<Vec<_>>()
    };
    asked.batch(section.findings.blocks.iter().flat_map(of_block))
}

/// Rows of `producer_candidate`.
pub(super) fn candidates(section: &SectionCode, asked: &CodeScan) -> Result<RecordBatch> {
    let findings = &section.findings;
    let given = findings.producers.iter().filter_map(|producer| candidate(section, producer, asked));
    let queues = findings.memory.iter().filter_map(|memory| {
        itself(section, *memory, "queue", asked, || {
            explain::itself(section, memory.offset, "room in the queue of its unit")
        })
    });
    let constants = findings.memory.iter().filter(|memory| waits_for_its_constant(section, **memory));
    let constants = constants.filter_map(|memory| {
        let explain = || explain::itself(section, memory.offset, "its constant");
        itself(section, *memory, WaitClass::ShortScoreboard.name(), asked, explain)
    });
    asked.batch(given.chain(queues).chain(constants))
}

/// True if an instruction reads constant memory and waits for no barrier: then nothing but its constant can be late.
fn waits_for_its_constant(section: &SectionCode, memory: MemoryInstruction) -> bool {
    memory.space == MemorySpace::Constant
        && section.instruction(memory.offset).is_some_and(|decoded| decoded.control.wait_mask == 0)
}

/// An instruction that waits for its own access.
fn itself(
    section: &SectionCode,
    memory: MemoryInstruction,
    wait: &str,
    asked: &CodeScan,
    explain: impl FnOnce() -> String,
) -> Option<ProducerCandidate> {
    let (function_id, pc) = section.location(memory.offset)?;
    asked.wants_function(function_id).then(|| ProducerCandidate {
        function_id,
        pc,
        wait: wait.to_owned(),
        producer_function_id: function_id,
        producer_pc: pc,
        producer_space: memory.space.name().to_owned(),
        producer_class: memory.class.name().to_owned(),
        link: "itself".to_owned(),
        distance_cycles: Some(0),
        covered_cycles: Some(0),
        slot: 0,
        weight: 1.0,
        confidence: "exact".to_owned(),
        explanation: explanation(asked, explain),
    })
}

fn candidate(section: &SectionCode, producer: &WaitProducer, asked: &CodeScan) -> Option<ProducerCandidate> {
    let (function_id, pc) = section.location(producer.waiter)?;
    let (producer_function_id, producer_pc) = section.location(producer.producer)?;
    let memory = section.findings.memory_at(producer.producer);
    let class =
        || section.instruction(producer.producer).map_or(ExecutionUnit::Unknown, |decoded| decoded.class);
    asked.wants_function(function_id).then(|| ProducerCandidate {
        function_id,
        pc,
        wait: producer.wait.name().to_owned(),
        producer_function_id,
        producer_pc,
        producer_space: memory.map_or("none", |memory| space(section, producer, memory)).to_owned(),
        producer_class: memory.map_or_else(class, |memory| memory.class).name().to_owned(),
        link: producer.link.name().to_owned(),
        distance_cycles: producer.distance_cycles,
        covered_cycles: producer.covered_cycles,
        slot: producer.slot,
        weight: producer.weight,
        confidence: producer.confidence.name().to_owned(),
        explanation: explanation(asked, || explain::sentence(section, producer)),
    })
}

/// Memory space of the wait: a test of an mbarrier reads shared memory, but waits for those who signal it.
fn space(section: &SectionCode, producer: &WaitProducer, memory: MemoryInstruction) -> &'static str {
    let reads = || {
        let decoded = section.instruction(producer.producer);
        decoded.and_then(|decoded| decoded.memory).is_some_and(|memory| memory.kind == MemoryEffect::Read)
    };
    match memory.class {
        ExecutionUnit::Sync if producer.link == ProducerLink::Mbarrier => "signal",
        ExecutionUnit::Sync if reads() => "mbarrier",
        _ => memory.space.name(),
    }
}

fn explanation(asked: &CodeScan, sentence: impl FnOnce() -> String) -> String {
    if asked.wants("explanation") { sentence() } else { String::new() }
}

/// Rows of `tensor_map_use`.
pub(super) fn tensor_maps(section: &SectionCode, asked: &CodeScan) -> Result<RecordBatch> {
    let kernel = section.kernel().map(|kernel| kernel.function_id);
    let rows = section.findings.tensor_maps.iter().filter_map(|map| {
        let (function_id, pc) = section.location(map.offset)?;
        let kernel_function_id = kernel?;
        let parameter_offset = map.parameter_offset;
        asked.wants_function(function_id).then_some(TensorMapUse {
            function_id,
            pc,
            kernel_function_id,
            parameter_offset,
            block_axes: map.axes.map(GridAxes::name),
        })
    });
    asked.batch(rows)
}

/// Rows of `pointer_use`.
pub(super) fn pointers(section: &SectionCode, asked: &CodeScan) -> Result<RecordBatch> {
    let kernel = section.kernel().map(|kernel| kernel.function_id);
    let rows = section.findings.pointers.iter().filter_map(|pointer| {
        let (function_id, pc) = section.location(pointer.offset)?;
        let kernel_function_id = kernel?;
        let parameter_offset = pointer.parameter_offset;
        let block_axes = pointer.axes.map(GridAxes::name);
        let row = PointerUse { function_id, pc, kernel_function_id, parameter_offset, block_axes };
        asked.wants_function(function_id).then_some(row)
    });
    asked.batch(rows)
}

/// Rows of `pointer_array_use`.
pub(super) fn pointer_arrays(section: &SectionCode, asked: &CodeScan) -> Result<RecordBatch> {
    let kernel = section.kernel().map(|kernel| kernel.function_id);
    let rows = section.findings.pointer_arrays.iter().filter_map(|array| {
        let (function_id, pc) = section.location(array.offset)?;
        let kernel_function_id = kernel?;
        let parameter_offset = array.parameter_offset;
        let row = PointerArrayUse { function_id, pc, kernel_function_id, parameter_offset };
        asked.wants_function(function_id).then_some(row)
    });
    asked.batch(rows)
}

/// Rows of `pointer_store`.
pub(super) fn pointer_stores(section: &SectionCode, asked: &CodeScan) -> Result<RecordBatch> {
    let kernel = section.kernel().map(|kernel| kernel.function_id);
    let rows = section.findings.pointer_stores.iter().filter_map(|store| {
        let (function_id, pc) = section.location(store.offset)?;
        let kernel_function_id = kernel?;
        let (parameter_offset, stored_offset) = (store.parameter_offset, store.stored_offset);
        let row = PointerStoreUse { function_id, pc, kernel_function_id, parameter_offset, stored_offset };
        asked.wants_function(function_id).then_some(row)
    });
    asked.batch(rows)
}

/// Rows of `access_pointer_use`.
pub(super) fn access_pointers(section: &SectionCode, asked: &CodeScan) -> Result<RecordBatch> {
    let kernel = section.kernel().map(|kernel| kernel.function_id);
    let rows = section.findings.accesses.iter().filter_map(|access| {
        let (function_id, pc) = section.location(access.offset)?;
        let kernel_function_id = kernel?;
        let parameter_offset = access.parameter_offset;
        let row = AccessPointerUse { function_id, pc, kernel_function_id, parameter_offset };
        asked.wants_function(function_id).then_some(row)
    });
    asked.batch(rows)
}

/// Rows of `signal_work`.
pub(super) fn signals(section: &SectionCode, asked: &CodeScan) -> Result<RecordBatch> {
    let of_signal = |signal: &BarrierSignal| {
        let location =
            section.location(signal.offset).filter(|(function_id, _)| asked.wants_function(*function_id));
        let row = move |offset: &u32| {
            let (function_id, pc) = location?;
            let (work_function_id, work_pc) = section.location(*offset)?;
            Some(SignalWork { function_id, pc, work_function_id, work_pc })
        };
        signal.work.iter().filter_map(row).collect::<Vec<_>>()
    };
    asked.batch(section.findings.signals.iter().flat_map(of_signal))
}

/// Rows of `shared_fill`.
pub(super) fn fills(section: &SectionCode, asked: &CodeScan) -> Result<RecordBatch> {
    let rows = section.findings.fills.iter().filter_map(|fill| {
        let (function_id, pc) = section.location(fill.offset)?;
        let (fill_function_id, fill_pc) = section.location(fill.fill)?;
        asked.wants_function(function_id).then(|| SharedFill {
            function_id,
            pc,
            fill_function_id,
            fill_pc,
            kind: fill.kind.name().to_owned(),
            share: fill.share,
        })
    });
    asked.batch(rows)
}
