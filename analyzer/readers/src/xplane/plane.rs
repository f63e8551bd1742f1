//! Planes, their lines and events, as they are in the file.

use std::collections::HashMap;

use crate::formats::proto::{ProtoReader, ProtoValue};

use super::SpaceDamage;

/// Most lines, names and statistics of a plane: each takes a hundred bytes of memory.
pub(super) const MAX_PARTS: usize = 1 << 22;

/// Statistics that are read, by their names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StatField {
    Correlation,
    Kernel,
    Copy,
    Fill,
    Graph,
    Instruction,
    Module,
    Program,
    Path,
    Operation,
    Step,
    Allocator,
    Address,
    Bytes,
    Requested,
}

impl StatField {
    fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "correlation_id" => Self::Correlation,
            "kernel_details" => Self::Kernel,
            "memcpy_details" => Self::Copy,
            "memset_details" => Self::Fill,
            "cuda_graph_id" => Self::Graph,
            "hlo_op" => Self::Instruction,
            "hlo_module" => Self::Module,
            "program_id" => Self::Program,
            "name" => Self::Path,
            "tf_op" => Self::Operation,
            "step_num" => Self::Step,
            "allocator_name" => Self::Allocator,
            "addr" => Self::Address,
            "allocation_bytes" => Self::Bytes,
            "requested_bytes" => Self::Requested,
            _ => return None,
        })
    }
}

/// The value of a statistic.
#[derive(Clone, Copy, Debug)]
pub(crate) enum StatValue<'a> {
    Number(u64),
    Double(f64),
    Text(&'a str),
    Bytes(&'a [u8]),
}

impl StatValue<'_> {
    /// Its text, as a fact.
    pub(crate) fn text(self) -> String {
        match self {
            Self::Number(number) => number.to_string(),
            Self::Double(number) => number.to_string(),
            Self::Text(text) => text.to_owned(),
            Self::Bytes(_) => String::new(),
        }
    }
}

/// A plane: its names, and its lines as they are.
#[derive(Debug, Default)]
pub(crate) struct TracePlane<'a> {
    pub(crate) name: &'a str,
    lines: Vec<ProtoReader<'a>>,
    names: HashMap<u64, &'a str>,
    /// Metadata of events: their own statistics.
    metadata: HashMap<u64, ProtoReader<'a>>,
    stat_names: HashMap<u64, &'a str>,
    fields: HashMap<u64, StatField>,
    stats: Vec<ProtoReader<'a>>,
}

/// A line: a stream, or a thread.
#[derive(Debug)]
pub(crate) struct PlaneEvents<'p, 'a> {
    plane: &'p TracePlane<'a>,
    pub(crate) id: u64,
    pub(crate) name: &'a str,
    pub(crate) begin_ns: i64,
    message: ProtoReader<'a>,
}

/// An event. Of several statistics with one name, the last counts.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PlaneEvent<'a> {
    pub(crate) name: &'a str,
    pub(crate) offset_ps: i64,
    /// None for an event at a moment.
    pub(crate) duration_ps: Option<i64>,
    pub(crate) correlation: Option<u64>,
    pub(crate) kernel: Option<&'a str>,
    pub(crate) copy: Option<&'a str>,
    pub(crate) fill: Option<&'a str>,
    pub(crate) is_in_graph: bool,
    pub(crate) instruction: Option<&'a str>,
    pub(crate) module: Option<&'a str>,
    pub(crate) program: Option<u64>,
    pub(crate) path: Option<&'a str>,
    /// TensorFlow's path of the operation, with its type behind a colon.
    pub(crate) operation: Option<&'a str>,
    pub(crate) step: Option<u64>,
    pub(crate) allocator: Option<&'a str>,
    pub(crate) address: Option<u64>,
    pub(crate) bytes: Option<u64>,
    pub(crate) requested: Option<u64>,
}

impl<'a> TracePlane<'a> {
    /// Reads a plane: everything but its events.
    pub(crate) fn read(message: ProtoReader<'a>, damage: &mut SpaceDamage) -> Self {
        let mut plane = Self::default();
        for (count, field) in message.lenient().enumerate() {
            if count >= MAX_PARTS {
                damage.add(format!("byte {}: a plane with more than {MAX_PARTS} parts", message.at));
                return plane;
            }
            match field {
                Ok((2, ProtoValue::Message(name))) => plane.name = text(name),
                Ok((3, ProtoValue::Message(line))) => plane.lines.push(line),
                Ok((4, ProtoValue::Message(entry))) => plane.event_metadata(entry),
                Ok((5, ProtoValue::Message(entry))) => plane.stat_metadata(entry),
                Ok((6, ProtoValue::Message(stat))) => plane.stats.push(stat),
                Ok(_) => {}
                Err(reason) => damage.add(reason),
            }
        }
        plane
    }

    /// An entry of a map: a number, and a message with a name.
    fn event_metadata(&mut self, entry: ProtoReader<'a>) {
        let (number, Some(metadata)) = entry_of(entry) else { return };
        let (mut name, mut title) = ("", "");
        for field in metadata.into_iter().map_while(Result::ok) {
            match field {
                (2, ProtoValue::Message(value)) => name = text(value),
                (4, ProtoValue::Message(value)) => title = text(value),
                _ => {}
            }
        }
        self.names.insert(number, if name.is_empty() { title } else { name });
        self.metadata.insert(number, metadata);
    }

    fn stat_metadata(&mut self, entry: ProtoReader<'a>) {
        let (number, Some(metadata)) = entry_of(entry) else { return };
        let name = metadata.message(2).ok().flatten().map_or("", text);
        self.stat_names.insert(number, name);
        if let Some(field) = StatField::from_name(name) {
            self.fields.insert(number, field);
        }
    }

    /// The ordinal of a plane of a GPU.
    pub(crate) fn gpu(&self) -> Option<i32> {
        self.name.strip_prefix("/device:GPU:")?.parse().ok()
    }

    /// Its statistics, with their names.
    pub(crate) fn stats(&self) -> impl Iterator<Item = (&'a str, StatValue<'a>)> {
        self.stats.iter().filter_map(|stat| {
            let (number, value) = self.stat(*stat)?;
            Some((*self.stat_names.get(&number)?, value))
        })
    }

    /// Bytes among the statistics of metadata, with the name of the event: modules that XLA compiled.
    pub(crate) fn attachments(&self) -> impl Iterator<Item = (&'a str, &'a [u8])> {
        self.metadata.iter().flat_map(|(number, metadata)| {
            let name = self.names.get(number).copied().unwrap_or("");
            let stats = metadata.into_iter().map_while(Result::ok).filter_map(|field| match field {
                (5, ProtoValue::Message(stat)) => self.stat(stat),
                _ => None,
            });
            stats.filter_map(move |(_, value)| match value {
                StatValue::Bytes(bytes) => Some((name, bytes)),
                _ => None,
            })
        })
    }

    /// Events of all lines.
    pub(crate) fn event_count(&self) -> u64 {
        let events = |line: &ProtoReader<'a>| {
            line.lenient().filter(|field| matches!(field, Ok((4, ProtoValue::Message(_))))).count() as u64
        };
        self.lines.iter().map(events).sum()
    }

    /// Its lines.
    pub(crate) fn lines(&self, damage: &mut SpaceDamage) -> Vec<PlaneEvents<'_, 'a>> {
        let mut lines = Vec::new();
        for message in &self.lines {
            let mut line = PlaneEvents { plane: self, id: 0, name: "", begin_ns: 0, message: *message };
            for field in message.lenient() {
                match field {
                    Ok((1, ProtoValue::Number(id))) => line.id = id,
                    Ok((2, ProtoValue::Message(name))) => line.name = text(name),
                    Ok((3, ProtoValue::Number(begin))) => line.begin_ns = begin.cast_signed(),
                    Ok(_) => {}
                    Err(reason) => damage.add(reason),
                }
            }
            lines.push(line);
        }
        lines
    }

    /// A statistic: the number of its name, and its value.
    fn stat(&self, message: ProtoReader<'a>) -> Option<(u64, StatValue<'a>)> {
        let (mut number, mut found) = (0, None);
        for field in message.into_iter().map_while(Result::ok) {
            match field {
                (1, ProtoValue::Number(value)) => number = value,
                (2, ProtoValue::Eight(bits)) => found = Some(StatValue::Double(f64::from_bits(bits))),
                (3 | 4, ProtoValue::Number(value)) => found = Some(StatValue::Number(value)),
                (5, ProtoValue::Message(value)) => found = Some(StatValue::Text(text(value))),
                (6, ProtoValue::Message(value)) => found = Some(StatValue::Bytes(value.bytes)),
                (7, ProtoValue::Number(name)) => {
                    found = Some(StatValue::Text(self.stat_names.get(&name).copied().unwrap_or("")));
                }
                _ => {}
            }
        }
        Some((number, found?))
    }
}

impl<'a> PlaneEvents<'_, 'a> {
    /// Its events, in the order of the file.
    pub(crate) fn read(&self, damage: &mut SpaceDamage) -> impl Iterator<Item = PlaneEvent<'a>> {
        // Damage of the line itself was counted with its head.
        let events = self.message.lenient().filter_map(|field| match field {
            Ok((4, ProtoValue::Message(event))) => Some(event),
            _ => None,
        });
        events.filter_map(|message| self.event(message).map_err(|reason| damage.add(reason)).ok())
    }

    fn event(&self, message: ProtoReader<'a>) -> Result<PlaneEvent<'a>, String> {
        let mut event = PlaneEvent::default();
        for field in message {
            match field? {
                (1, ProtoValue::Number(number)) => {
                    event.name = self.plane.names.get(&number).copied().unwrap_or("");
                }
                (2, ProtoValue::Number(offset)) => event.offset_ps = offset.cast_signed(),
                (3, ProtoValue::Number(length)) => event.duration_ps = Some(length.cast_signed()),
                (4, ProtoValue::Message(stat)) => self.put(stat, &mut event),
                _ => {}
            }
        }
        Ok(event)
    }

    /// Sets a statistic of an event.
    fn put(&self, message: ProtoReader<'a>, event: &mut PlaneEvent<'a>) {
        // Most statistics are not read: their names come first.
        let first = message.into_iter().next();
        let field = match first {
            Some(Ok((1, ProtoValue::Number(number)))) => self.plane.fields.get(&number).copied(),
            _ => None,
        };
        let Some((field, (_, value))) = field.zip(self.plane.stat(message)) else { return };
        match (field, value) {
            (StatField::Correlation, StatValue::Number(value)) => event.correlation = Some(value),
            (StatField::Kernel, StatValue::Text(value)) => event.kernel = Some(value),
            (StatField::Copy, StatValue::Text(value)) => event.copy = Some(value),
            (StatField::Fill, StatValue::Text(value)) => event.fill = Some(value),
            (StatField::Graph, StatValue::Number(_)) => event.is_in_graph = true,
            (StatField::Instruction, StatValue::Text(value)) => event.instruction = Some(value),
            (StatField::Module, StatValue::Text(value)) => event.module = Some(value),
            (StatField::Program, StatValue::Number(value)) => event.program = Some(value),
            (StatField::Path, StatValue::Text(value)) => event.path = Some(value),
            (StatField::Operation, StatValue::Text(value)) => event.operation = Some(value),
            (StatField::Step, StatValue::Number(value)) => event.step = Some(value),
            (StatField::Allocator, StatValue::Text(value)) => event.allocator = Some(value),
            (StatField::Address, StatValue::Number(value)) => event.address = Some(value),
            (StatField::Bytes, StatValue::Number(value)) => event.bytes = Some(value),
            (StatField::Requested, StatValue::Number(value)) => event.requested = Some(value),
            _ => {}
        }
    }
}

/// An entry of a map: its number, and its message.
fn entry_of(entry: ProtoReader<'_>) -> (u64, Option<ProtoReader<'_>>) {
    let number = entry.number(1).ok().flatten().unwrap_or(0);
    (number, entry.message(2).ok().flatten())
}

/// A text. Bytes that are not UTF-8 end it.
fn text(message: ProtoReader<'_>) -> &str {
    let bytes = message.bytes;
    std::str::from_utf8(bytes).unwrap_or_else(|error| {
        bytes.get(..error.valid_up_to()).and_then(|bytes| std::str::from_utf8(bytes).ok()).unwrap_or("")
    })
}
