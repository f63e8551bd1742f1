//! Databases of rocprofv3 (rocpd, its default format): SQLite, each process with tables of its own.
//!
//! A table's name ends with the process's identity. Kernels and copies have an event, whose stack is that of the call of
//! HIP that launched them. Regions are calls of libraries, or markers of the program.

#[cfg(test)]
mod tests;
mod work;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;
use std::rc::Rc;

use crate::error::{ReadError, ReadResult};
use stallmap_schema::word::{Instrument, LossKind};

use crate::formats::json::JsonStream;
use crate::join::{join_ops, join_steps};
use crate::model::{TraceCall, TraceDevice, TraceModel, TraceProcess};
use crate::nsys::cell::SqlRow;
use crate::nsys::database::OpenDatabase;

/// The begin of the name of each process's dispatches.
const DISPATCHES: &str = "rocpd_kernel_dispatch";

/// A kernel's code.
struct RocpdSymbol {
    name: Rc<str>,
    registers: Option<u32>,
}

/// An event: the stack of the call, and what it is of.
#[derive(Clone, Copy, Debug, Default)]
struct RocpdEvent {
    stack: Option<u64>,
    category: Option<i64>,
}

/// A track: since version 4 of the schema, rows name theirs instead of its parts.
#[derive(Clone, Copy, Debug, Default)]
struct RocpdTrack {
    thread: Option<i64>,
    agent: Option<i64>,
    stream: Option<u64>,
    queue: Option<u64>,
}

/// A database while it is read.
struct RocpdReader<'a> {
    database: &'a OpenDatabase,
    trace: TraceModel,
}

/// The parts of one process.
struct RocpdProcess {
    place: usize,
    /// The end of its tables' names.
    suffix: String,
    texts: HashMap<i64, Rc<str>>,
    /// Categories of events, if they are no texts.
    categories: Option<HashMap<i64, Rc<str>>>,
    tracks: HashMap<i64, RocpdTrack>,
    events: HashMap<i64, RocpdEvent>,
    /// Texts of markers, by their event.
    messages: HashMap<i64, Rc<str>>,
    symbols: HashMap<i64, RocpdSymbol>,
    /// GPUs by the tool's number.
    ordinals: HashMap<i64, i32>,
    /// Calls by their stack, with their names, and the stacks of those that launch work.
    calls: HashMap<u64, (TraceCall, Rc<str>)>,
    launching: HashSet<u64>,
    /// False if all work is on stream 0: then queues are the lanes.
    has_streams: bool,
    /// Kernels by their event.
    kernels: HashMap<i64, usize>,
}

/// Reads a database. None if it is not one of rocprofv3.
pub(crate) fn read(database: &OpenDatabase, path: &Path) -> ReadResult<Option<TraceModel>> {
    let tables = database.tables(DISPATCHES)?;
    if tables.is_empty() {
        return Ok(None);
    }
    let mut reader =
        RocpdReader { database, trace: TraceModel { tool: "rocprofv3", ..TraceModel::default() } };
    for table in &tables {
        let suffix = table.get(DISPATCHES.len()..).unwrap_or_default();
        reader.process(suffix)?;
    }
    let trace = &reader.trace;
    if trace.kernels.is_empty() && trace.works.is_empty() && trace.ops.is_empty() {
        let message = format!(
            "`{}` is a database of rocprofv3 (rocpd) without kernels, copies and markers",
            path.display()
        );
        return Err(ReadError::message(message)
            .hint("trace them with `rocprofv3 --kernel-trace --memory-copy-trace`".to_owned()));
    }
    Ok(Some(reader.finish()))
}

impl RocpdReader<'_> {
    /// Visits the rows of a table of a process.
    fn rows(
        &self,
        table: &str,
        suffix: &str,
        columns: &[&str],
        visit: impl FnMut(&SqlRow),
    ) -> ReadResult<bool> {
        self.database.rows(&format!("rocpd_{table}{suffix}"), columns, visit)
    }

    fn process(&mut self, suffix: &str) -> ReadResult<()> {
        let place = self.trace.processes.len();
        let mut number = 0;
        self.rows("info_process", suffix, &["pid"], |row| number = row.number(0).unwrap_or(number))?;
        self.trace.processes.push(TraceProcess::with_number(number, Instrument::Timeline));
        let mut process = RocpdProcess {
            place,
            suffix: suffix.to_owned(),
            texts: HashMap::new(),
            categories: None,
            tracks: HashMap::new(),
            events: HashMap::new(),
            messages: HashMap::new(),
            symbols: HashMap::new(),
            ordinals: HashMap::new(),
            calls: HashMap::new(),
            launching: HashSet::new(),
            has_streams: false,
            kernels: HashMap::new(),
        };
        self.names(&mut process)?;
        self.agents(&mut process)?;
        process.has_streams = self.has_streams(&process)?;
        self.regions(&mut process)?;
        self.kernels(&mut process)?;
        self.copies(&mut process)?;
        self.counters(&process)?;
        self.left(&process)
    }

    fn names(&self, process: &mut RocpdProcess) -> ReadResult<()> {
        let suffix = process.suffix.clone();
        self.rows("string", &suffix, &["id", "string"], |row| {
            if let Some((id, text)) = row.integer(0).zip(row.text(1)) {
                process.texts.insert(id, text.into());
            }
        })?;
        let mut categories = HashMap::new();
        let is_there = self.rows("info_category", &suffix, &["id", "name"], |row| {
            if let Some((id, name)) = row.integer(0).zip(row.text(1)) {
                categories.insert(id, name.into());
            }
        })?;
        process.categories = is_there.then_some(categories);
        self.rows("track", &suffix, &["id", "tid", "agent_id", "stream_id", "queue_id"], |row| {
            let [thread, agent] = [1, 2].map(|column| row.integer(column));
            let track = RocpdTrack { thread, agent, stream: row.number(3), queue: row.number(4) };
            process.tracks.extend(row.integer(0).map(|id| (id, track)));
        })?;
        self.rows("event", &suffix, &["id", "stack_id", "category_id", "extdata"], |row| {
            let event = RocpdEvent { stack: row.number(1), category: row.integer(2) };
            process.events.extend(row.integer(0).map(|id| (id, event)));
            process.messages.extend(row.integer(0).zip(message(row.text(3)).map(Into::into)));
        })?;
        let columns = ["id", "display_name", "kernel_name", "arch_vgpr_count"];
        self.rows("info_kernel_symbol", &suffix, &columns, |row| {
            let name =
                row.text(1).filter(|name| !name.is_empty()).or(row.text(2)).unwrap_or("(unknown kernel)");
            let symbol = RocpdSymbol { name: name.into(), registers: row.number(3) };
            process.symbols.extend(row.integer(0).map(|id| (id, symbol)));
        })?;
        Ok(())
    }

    /// GPUs, in the order of the tool's numbers.
    fn agents(&mut self, process: &mut RocpdProcess) -> ReadResult<()> {
        let mut gpus = BTreeMap::new();
        self.rows(
            "info_agent",
            &process.suffix,
            &["id", "type", "type_index", "product_name", "name"],
            |row| {
                if let (Some(id), Some("GPU")) = (row.integer(0), row.text(1)) {
                    let name =
                        row.text(3).filter(|name| !name.is_empty()).or(row.text(4)).unwrap_or_default();
                    gpus.insert(id, (row.number::<i32>(2), name.to_owned()));
                }
            },
        )?;
        for (place, (id, (index, name))) in (0..).zip(gpus) {
            let ordinal = index.unwrap_or(place);
            process.ordinals.insert(id, ordinal);
            self.trace.devices.push(TraceDevice { ordinal, name, ..TraceDevice::default() });
        }
        Ok(())
    }

    fn finish(self) -> TraceModel {
        let mut trace = self.trace;
        join_ops(&mut trace);
        join_steps(&mut trace);
        let without = trace.kernels.iter().filter(|kernel| kernel.call.is_none()).count() as u64;
        let losses = &mut trace.losses;
        losses.add_many(LossKind::Source, "kernels without a launch call in the profile", without, None);
        losses.lacks("the time of day: times are those of the system's own clock");
        losses.lacks("clocks, memory and L2 size of GPUs, written as 0");
        for part in ["tensors and Python stacks", "memory accesses", "machine code"] {
            losses.lacks(part);
        }
        trace
    }
}

impl RocpdProcess {
    fn text(&self, id: Option<i64>) -> Rc<str> {
        id.and_then(|id| self.texts.get(&id)).cloned().unwrap_or_default()
    }

    fn category(&self, id: Option<i64>) -> Rc<str> {
        let named = self.categories.as_ref().unwrap_or(&self.texts);
        id.and_then(|id| named.get(&id)).cloned().unwrap_or_default()
    }

    fn track(&self, id: Option<i64>) -> RocpdTrack {
        id.and_then(|id| self.tracks.get(&id)).copied().unwrap_or_default()
    }

    fn stack(&self, event: Option<i64>) -> Option<u64> {
        self.events.get(&event?)?.stack
    }

    /// The call of a piece of work by its stack, and its name.
    fn call(&mut self, stack: Option<u64>) -> (Option<TraceCall>, Option<Rc<str>>) {
        match stack.and_then(|stack| Some((stack, self.calls.get(&stack)?.clone()))) {
            Some((stack, (call, name))) => {
                self.launching.insert(stack);
                (Some(call), Some(name))
            }
            None => (None, None),
        }
    }

    /// The stream of a piece of work, or its queue, each by itself or by its track.
    fn lane(&self, stream: Option<u64>, queue: Option<u64>, track: RocpdTrack) -> Option<u64> {
        let queue = queue.or(track.queue).filter(|_| !self.has_streams);
        queue.or(stream).or(track.stream)
    }

    fn ordinal(&self, agent: Option<i64>) -> Option<i32> {
        self.ordinals.get(&agent?).copied()
    }
}

/// The text of a marker: `{"message":"..."}`.
fn message(extra: Option<&str>) -> Option<String> {
    // Events of other kinds have an empty object.
    let extra = extra.filter(|extra| extra.contains("message"))?;
    let mut message = None;
    let mut json = JsonStream::new(extra.as_bytes(), Path::new("extdata"));
    let result = json.object(|json, key| {
        if key != "message" {
            return json.skip();
        }
        message = json.scalar()?;
        Ok(())
    });
    message.filter(|message| result.is_ok() && !message.is_empty())
}
