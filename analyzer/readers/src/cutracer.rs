//! Traces of CUTracer: memory accesses, launches and Python stacks as lines of JSON.
//!
//! A line of `kernel_metadata` describes the launch whose records follow. Records are read one by one, and a bad line is
//! counted. The code of a kernel is known by its mangled name and a checksum only.

mod instruction;
mod lanes;
mod record;

use std::collections::{BTreeMap, HashMap};
use std::io::{BufRead, BufReader, Read as _};
use std::rc::Rc;

use crate::error::{ReadError, ReadResult};
use crate::formats::input::ImportInput;
use crate::formats::json::JsonStream;
use stallmap_schema::word::{Instrument, LossKind};

use self::instruction::TracedInstruction;
use self::record::{TraceLine, WarpRecord};
use crate::damage::add_damage;
use crate::model::{TraceAccess, TraceFrame, TraceKernel, TraceModel, TraceProcess};

/// Most accesses of a file.
const MAX_ACCESSES: usize = 20_000_000;
/// Most launches of a file.
const MAX_LAUNCHES: usize = 2_000_000;
/// Most bytes of a line: that of a kernel lists its instructions.
const MAX_LINE_BYTES: u64 = 64 << 20;
const LANES: u64 = 32;

/// A trace while it is read.
#[derive(Default)]
struct CutracerReader {
    trace: TraceModel,
    /// Launches by their number.
    launches: HashMap<i64, usize>,
    /// The kernel that the last metadata describe, with the SASS of its instructions by number.
    current: record::TracedKernel,
    stacks: HashMap<String, usize>,
    frames: HashMap<TraceFrame, usize>,
    /// Stacks of launches, by name: a stack may be defined behind its launch.
    stack_names: Vec<(usize, String)>,
}

/// Reads a trace.
pub(crate) fn read(input: &ImportInput) -> ReadResult<TraceModel> {
    let wrong = |error| ReadError::io(error, format!("read `{}`", input.path.display()));
    let mut reading = CutracerReader::default();
    let mut reader = BufReader::new(input.open()?);
    let mut bytes = Vec::new();
    loop {
        bytes.clear();
        let count = reader.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut bytes).map_err(wrong)?;
        if count == 0 {
            break;
        }
        if bytes.last() != Some(&b'\n') && count as u64 == MAX_LINE_BYTES {
            reader.skip_until(b'\n').map_err(wrong)?;
            reading.trace.losses.add(LossKind::Source, "lines with more than 64 MiB", None);
            continue;
        }
        if bytes.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        let mut json = JsonStream::new(bytes.as_slice(), &input.path);
        match TraceLine::read(&mut json).and_then(|line| json.end().map(|damage| (line, damage))) {
            Ok((line, damage)) => {
                add_damage(&mut reading.trace.losses, &damage);
                reading.line(line)?;
            }
            Err(_) => reading.trace.losses.add(LossKind::Source, "lines that are not complete JSON", None),
        }
    }
    if reading.trace.kernels.is_empty() {
        return Err(ReadError::message(format!("`{}` has no launches and no records", input.path.display()))
            .hint("stallmap reads CUTracer's NDJSON: `mem_addr_trace` and events of kernels".to_owned()));
    }
    Ok(reading.finish())
}

impl CutracerReader {
    fn line(&mut self, line: TraceLine) -> ReadResult<()> {
        for key in &line.unknown {
            let reason = "keys of the imported file that are not read";
            self.trace.losses.add(LossKind::Source, reason, Some(key));
        }
        match line.kind.as_str() {
            "kernel_metadata" => self.current = line.kernel,
            "kernel_launch" => self.launch(line)?,
            "callstack_def" => self.stack(line),
            "mem_addr_trace" | "mem_value_trace" => self.access(&line.record)?,
            // Records of registers, opcodes and tensor copies have no addresses of lanes.
            kind => self.trace.losses.add(LossKind::Source, "records of other kinds", Some(kind)),
        }
        Ok(())
    }

    /// A launch among the events of kernels.
    fn launch(&mut self, line: TraceLine) -> ReadResult<()> {
        let place = self.place(line.launch, &line.kernel)?;
        self.stack_names.extend(line.stack.map(|stack| (place, stack)));
        Ok(())
    }

    /// The place of a launch. A new one is added.
    fn place(&mut self, launch: Option<i64>, kernel: &record::TracedKernel) -> ReadResult<usize> {
        let number = launch.unwrap_or(-1);
        if let Some(place) = self.launches.get(&number) {
            return Ok(*place);
        }
        let place = self.trace.kernels.len();
        if place >= MAX_LAUNCHES {
            return Err(ReadError::message(format!("the trace has more than {MAX_LAUNCHES} launches")));
        }
        self.launches.insert(number, place);
        self.trace.kernels.push(TraceKernel {
            name: kernel.name.clone().unwrap_or_else(|| "(unknown kernel)".into()),
            code: kernel.checksum.clone(),
            stream: kernel.stream.unwrap_or(0),
            grid: kernel.grid,
            block: kernel.block,
            registers: kernel.registers,
            correlation: launch.and_then(|number| u64::try_from(number).ok()),
            device: -1,
            ..TraceKernel::default()
        });
        Ok(place)
    }

    /// A stack: its frames, outermost first.
    fn stack(&mut self, line: TraceLine) {
        let Some(name) = line.stack else { return };
        let mut path = Vec::new();
        for text in line.frames.iter().rev() {
            let Some(frame) = frame(text) else {
                self.trace.losses.add(LossKind::Source, "frames without file, line and function", None);
                continue;
            };
            let next = self.frames.len();
            let place = *self.frames.entry(frame.clone()).or_insert(next);
            if place == next {
                self.trace.frames.push(frame);
            }
            path.push(place);
        }
        self.stacks.insert(name, self.trace.stacks.len());
        self.trace.stacks.push(path);
    }

    /// The accesses of a warp. One that cannot be a row is counted, in its launch too.
    fn access(&mut self, record: &WarpRecord) -> ReadResult<()> {
        let current = std::mem::take(&mut self.current);
        let place = self.place(record.launch, &current);
        self.current = current;
        let place = place?;
        let found = self.rows(place, record);
        let kernel = self.trace.kernels.get_mut(place);
        let requests = kernel.map(|kernel| kernel.requests.get_or_insert_default());
        match (found, requests) {
            (Ok(rows), Some(requests)) => {
                requests.rows += 1;
                requests.lanes += rows.iter().map(|row| u64::from(row.lane_mask.count_ones())).sum::<u64>();
                self.trace.accesses.extend(rows);
            }
            (Err(reason), Some(requests)) => {
                requests.lost += 1;
                self.trace.losses.add(LossKind::Access, reason, self.sass(record).as_deref());
            }
            (_, None) => {}
        }
        if self.trace.accesses.len() > MAX_ACCESSES {
            let message = format!("the trace has more than {MAX_ACCESSES} accesses");
            return Err(ReadError::message(message).hint("trace fewer blocks or launches".to_owned()));
        }
        Ok(())
    }

    /// The text of a record's instruction: its own, or that of the kernel.
    fn sass(&self, record: &WarpRecord) -> Option<Rc<str>> {
        record.sass.clone().or_else(|| self.current.instructions.get(&record.opcode?).cloned())
    }

    /// The rows of a record: one, or several if lanes are far apart.
    fn rows(&self, place: usize, record: &WarpRecord) -> Result<Vec<TraceAccess>, &'static str> {
        let kernel = self.trace.kernels.get(place).ok_or("requests of unknown launches")?;
        let pc = record.pc.ok_or("requests without the offset of their instruction")?;
        let mask = record.mask.ok_or("requests without a mask of active lanes")?;
        let [grid_x, grid_y, grid_z] =
            kernel.grid.ok_or("requests of launches without a grid")?.map(u64::from);
        let [x, y, z] = record.block.ok_or("requests without a block")?;
        if x >= grid_x || y >= grid_y || z >= grid_z {
            return Err("requests of blocks outside of the grid");
        }
        let threads = kernel.block.ok_or("requests of launches without a block size")?.map(u64::from);
        let threads = threads.iter().try_fold(1_u64, |product, size| product.checked_mul(*size));
        let warps = threads.ok_or("requests of blocks with too many warps")?.div_ceil(LANES).max(1);
        let row = z.checked_mul(grid_y).and_then(|rows| rows.checked_add(y));
        let block = row.and_then(|row| row.checked_mul(grid_x)).and_then(|blocks| blocks.checked_add(x));
        let warp = record.warp.ok_or("requests without a warp")?;
        let sass = self.sass(record);
        let instruction = match sass.as_deref() {
            Some(sass) => TracedInstruction::from_sass(sass)?,
            None => record.instruction()?,
        };
        let first = TraceAccess {
            kernel: place,
            pc,
            block: block.ok_or("requests of grids with too many blocks")?,
            // The number runs on across the blocks of a grid, though the tool's schema has it in the block.
            warp: u16::try_from(warp % warps).map_err(|_| "requests of blocks with too many warps")?,
            sequence: kernel.requests.as_ref().map_or(0, |requests| requests.rows),
            kind: instruction.kind,
            space: instruction.space,
            bytes: instruction.bytes,
            lane_mask: mask,
            address: 0,
            span_bytes: 0,
            stride_bytes: None,
            offsets: None,
            offset_shift: 0,
        };
        lanes::rows(&first, &record.addresses)
    }

    fn finish(mut self) -> TraceModel {
        for (place, name) in std::mem::take(&mut self.stack_names) {
            let stack = self.stacks.get(&name).copied();
            if stack.is_none() {
                self.trace.losses.add(LossKind::Source, "launches whose stack the file lacks", None);
            }
            if let Some(kernel) = self.trace.kernels.get_mut(place) {
                kernel.stack = stack;
            }
        }
        self.trace.tool = "cutracer";
        self.trace.processes.push(TraceProcess::with_number(0, Instrument::Accesses));
        let without = self.trace.kernels.iter().filter(|kernel| kernel.requests.is_none()).count() as u64;
        let losses = &mut self.trace.losses;
        losses.add_many(LossKind::Launch, "launches without a trace of accesses", without, None);
        self.trace.facts = BTreeMap::from([(
            "cutracer.order".to_owned(),
            "the order of requests is that of the file".to_owned(),
        )]);
        losses.lacks("times of launches and the run, written as 0");
        for part in ["machine code", "stall samples", "ops and tensors", "allocations", "GPUs, written as 0"]
        {
            losses.lacks(part);
        }
        self.trace
    }
}

/// A frame from `file:line in function`.
fn frame(text: &str) -> Option<TraceFrame> {
    let (place, function) = text.split_once(" in ")?;
    let (file, line) = place.rsplit_once(':')?;
    Some(TraceFrame { file: file.to_owned(), function: function.to_owned(), line: line.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_frames() {
        let parsed = frame("a/b.py:17 in <module>").unwrap();
        assert_eq!((parsed.file.as_str(), parsed.line, parsed.function.as_str()), ("a/b.py", 17, "<module>"));
        assert_eq!(frame("a.py in f"), None);
    }
}
