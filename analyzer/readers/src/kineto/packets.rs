//! The same trace as packets of Perfetto (`.pftrace`, PyTorch 2.12 and later): protocol buffers in place of JSON.
//!
//! Slices of threads carry the arguments of the JSON as annotations. Work of the GPU has packets of its own, whose names
//! and arguments other packets hold by number.

use std::collections::HashMap;
use std::io::{BufReader, Read};
use std::rc::Rc;

use crate::error::{ReadError, ReadResult};
use crate::formats::input::ImportInput;
use crate::formats::proto::{ProtoReader, ProtoValue};
use stallmap_schema::word::LossKind;

use super::event::{EventArguments, TraceEvent};
use super::slices::{TrackPacket, TrackPackets};
use super::{KinetoReader, MAX_EVENTS};
use crate::model::TraceModel;

/// Most bytes of one packet. The largest one holds all names.
const MAX_PACKET_BYTES: u64 = 1 << 30;
/// Most names.
const MAX_NAMES: usize = 1 << 24;
/// Clocks of packets and of the day.
const BOOT_CLOCK: u64 = 6;
const DAY_CLOCK: u64 = 1;
/// The packet forgets the names of those before it.
const CLEARS_NAMES: u64 = 1;

/// Lists of names, by the field that holds them. Their numbers are independent.
const EVENT_CATEGORIES: u32 = 1;
const EVENT_NAMES: u32 = 2;
const ARGUMENT_NAMES: u32 = 3;
const STAGES: u32 = 24;
const TEXTS: u32 = 29;
const LAUNCH_ARGUMENTS: u32 = 1001;

/// A trace while it is read.
#[derive(Default)]
struct PacketTrace {
    reading: KinetoReader,
    slices: TrackPackets,
    /// Names by sequence of packets, list and number.
    names: HashMap<(u64, u32, u64), Rc<str>>,
    /// The first damage.
    damage: Option<String>,
}

/// A packet, apart from its content.
#[derive(Clone, Copy, Default)]
struct PacketHead {
    time_ns: Option<i64>,
    sequence: u64,
}

/// Reads a trace.
pub(crate) fn read(input: &ImportInput) -> ReadResult<TraceModel> {
    parse(BufReader::new(input.open()?)).map_err(|reason| {
        let message = format!("`{}` is not a trace of PyTorch's profiler: {reason}", input.path.display());
        ReadError::message(message)
            .hint("write it with `export_chrome_trace`, as `.pftrace` or as JSON".to_owned())
    })
}

/// A trace, up to the first damage outside of packets. The damage of a packet is that of the packet.
pub(super) fn parse(reader: impl Read) -> Result<TraceModel, String> {
    let mut packets = PacketTrace::default();
    if let Err(reason) = packets.packets(reader) {
        packets.damaged("the file behind damage", reason);
    }
    packets.finish()
}

/// The field and the length of the next packet. None at the end.
fn key(reader: &mut impl Read, at: &mut u64) -> Result<Option<(u64, u64)>, String> {
    let begin = *at;
    let Some(key) = varint(reader, at)? else { return Ok(None) };
    if key & 7 != 2 {
        return Err(format!("byte {begin}: no packet begins here"));
    }
    let length =
        varint(reader, at)?.ok_or_else(|| format!("byte {begin}: it ends in the head of a packet"))?;
    if length > MAX_PACKET_BYTES {
        return Err(format!("byte {begin}: a packet has {length} bytes, more than {MAX_PACKET_BYTES}"));
    }
    Ok(Some((key >> 3, length)))
}

/// A number. None where the file ends in front of it.
fn varint(reader: &mut impl Read, at: &mut u64) -> Result<Option<u64>, String> {
    let begin = *at;
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let mut bytes = Vec::new();
        reader.take(1).read_to_end(&mut bytes).map_err(|error| format!("byte {at}: {error}"))?;
        let Some(byte) = bytes.first() else {
            return if shift == 0 { Ok(None) } else { Err(format!("byte {begin}: it ends in a number")) };
        };
        *at += 1;
        number |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
        if byte & 0x80 == 0 {
            return Ok(Some(number));
        }
    }
    Err(format!("byte {begin}: a number has no end"))
}

impl PacketTrace {
    fn packets(&mut self, mut reader: impl Read) -> Result<(), String> {
        let mut at = 0;
        while let Some((field, length)) = key(&mut reader, &mut at)? {
            let mut bytes = Vec::new();
            let count = (&mut reader)
                .take(length)
                .read_to_end(&mut bytes)
                .map_err(|error| format!("byte {at}: {error}"))?;
            if (count as u64) < length {
                return Err(format!("byte {at}: it ends in a packet of {length} bytes"));
            }
            if field == 1
                && let Err(reason) = self.packet(ProtoReader::new(&bytes, at))
            {
                self.damaged("packets that are damaged", reason);
            }
            at += length;
        }
        Ok(())
    }

    fn damaged(&mut self, what: &str, reason: String) {
        self.reading.trace.losses.add(LossKind::Source, what, Some(&reason));
        self.damage.get_or_insert(reason);
    }

    /// The head of a packet counts for its content, wherever it stands.
    fn packet(&mut self, message: ProtoReader<'_>) -> Result<(), String> {
        let (mut head, mut flags) = (PacketHead::default(), 0);
        for field in message {
            match field? {
                (8, ProtoValue::Number(time)) => head.time_ns = i64::try_from(time).ok(),
                (10, ProtoValue::Number(sequence)) => head.sequence = sequence,
                (13, ProtoValue::Number(value)) => flags = value,
                (58, ProtoValue::Number(clock)) if clock != BOOT_CLOCK => {
                    return self.leave("packets with times of another clock");
                }
                _ => {}
            }
        }
        if flags & CLEARS_NAMES != 0 {
            self.names.retain(|(sequence, ..), _| *sequence != head.sequence);
        }
        for field in message {
            match field? {
                (6, ProtoValue::Message(clocks)) => self.clocks(clocks)?,
                (11, ProtoValue::Message(event)) => self.event(event, head)?,
                (12, ProtoValue::Message(names)) => self.intern(names, head.sequence)?,
                (52, _) => self.leave("samples of GPU counters")?,
                (53, ProtoValue::Message(stage)) => self.stage(stage, head)?,
                (60, ProtoValue::Message(track)) => self.slices.describe(track)?,
                _ => {}
            }
        }
        Ok(())
    }

    #[expect(clippy::unnecessary_wraps, reason = "the result of a packet that is left out")]
    fn leave(&mut self, reason: &str) -> Result<(), String> {
        self.reading.trace.losses.add(LossKind::Source, reason, None);
        Ok(())
    }

    /// Times of packets are those of the day, less this distance.
    fn clocks(&mut self, message: ProtoReader<'_>) -> Result<(), String> {
        let (mut boot, mut day) = (None, None);
        for field in message {
            let (1, ProtoValue::Message(clock)) = field? else { continue };
            let time = clock.number(2)?.and_then(|time| i64::try_from(time).ok());
            match clock.number(1)? {
                Some(BOOT_CLOCK) => boot = time,
                Some(DAY_CLOCK) => day = time,
                _ => {}
            }
        }
        self.reading.base_ns =
            day.zip(boot).map_or(self.reading.base_ns, |(day, boot)| day.saturating_sub(boot));
        Ok(())
    }

    fn intern(&mut self, message: ProtoReader<'_>, sequence: u64) -> Result<(), String> {
        for field in message {
            let (list, ProtoValue::Message(entry)) = field? else { continue };
            if !matches!(
                list,
                EVENT_CATEGORIES | EVENT_NAMES | ARGUMENT_NAMES | STAGES | TEXTS | LAUNCH_ARGUMENTS
            ) {
                continue;
            }
            if let Some((number, name)) = entry.number(1)?.zip(entry.message(2)?) {
                if self.names.len() >= MAX_NAMES {
                    return Err(format!("byte {}: it has more than {MAX_NAMES} names", entry.at));
                }
                self.names.insert((sequence, list, number), name.text().into());
            }
        }
        Ok(())
    }

    fn name(&self, head: PacketHead, list: u32, number: u64) -> String {
        self.names.get(&(head.sequence, list, number)).map(ToString::to_string).unwrap_or_default()
    }

    /// The begin or the end of a slice, or a point in time.
    fn event(&mut self, message: ProtoReader<'_>, head: PacketHead) -> Result<(), String> {
        let mut event = TraceEvent { begin_ns: head.time_ns, ..TraceEvent::default() };
        let (mut kind, mut track) = (0, 0);
        for field in message {
            match field? {
                (3, ProtoValue::Number(category)) => {
                    event.category = self.name(head, EVENT_CATEGORIES, category);
                }
                (4, ProtoValue::Message(argument)) => self.argument(argument, head, &mut event.arguments)?,
                (9, ProtoValue::Number(value)) => kind = value,
                (10, ProtoValue::Number(name)) => event.name = self.name(head, EVENT_NAMES, name),
                (11, ProtoValue::Number(value)) => track = value,
                (22, ProtoValue::Message(category)) => event.category = category.text(),
                (23, ProtoValue::Message(name)) => event.name = name.text(),
                _ => {}
            }
        }
        // Waits have no category.
        if event.category.is_empty() && event.arguments.wait.is_some() {
            "cuda_sync".clone_into(&mut event.category);
        }
        self.count()?;
        let mark = match kind {
            1 => TrackPacket::Begin(event),
            2 => TrackPacket::End,
            3 => TrackPacket::Point(event),
            _ => return Ok(()),
        };
        match head.time_ns {
            Some(time_ns) => self.slices.add(track, time_ns, mark),
            None => self.reading.left.without_time += 1,
        }
        Ok(())
    }

    fn count(&mut self) -> Result<(), String> {
        self.reading.events += 1;
        if self.reading.events > MAX_EVENTS {
            return Err(format!("it has more than {MAX_EVENTS} events"));
        }
        Ok(())
    }

    /// An argument with one value. Lists and dictionaries are not read.
    fn argument(
        &self,
        message: ProtoReader<'_>,
        head: PacketHead,
        arguments: &mut EventArguments,
    ) -> Result<(), String> {
        let (mut name, mut value) = (String::new(), None);
        for field in message {
            match field? {
                (1, ProtoValue::Number(number)) => name = self.name(head, ARGUMENT_NAMES, number),
                (10, ProtoValue::Message(text)) => name = text.text(),
                (3, ProtoValue::Number(number)) => value = Some(number.to_string()),
                (4, ProtoValue::Number(number)) => value = Some(number.cast_signed().to_string()),
                (5, ProtoValue::Eight(bits)) => value = Some(f64::from_bits(bits).to_string()),
                (6, ProtoValue::Message(text)) => value = Some(text.text()),
                (17, ProtoValue::Number(number)) => value = Some(self.name(head, TEXTS, number)),
                _ => {}
            }
        }
        if let Some(value) = value {
            // The launch calls of `export` have the number of the kernel.
            let name = if name == "kernel_id" { "correlation" } else { &name };
            arguments.put(name, value);
        }
        Ok(())
    }

    /// A piece of work of a GPU.
    fn stage(&mut self, message: ProtoReader<'_>, head: PacketHead) -> Result<(), String> {
        let mut event = TraceEvent { phase: "X".to_owned(), begin_ns: head.time_ns, ..TraceEvent::default() };
        let (mut stage, mut queue) = (String::new(), String::new());
        for field in message {
            match field? {
                (2, ProtoValue::Number(length)) => event.duration_ns = i64::try_from(length).ok(),
                (6, ProtoValue::Message(data)) => {
                    let name = data.message(1)?.map(ProtoReader::text).unwrap_or_default();
                    let value = data.message(2)?.map(ProtoReader::text).unwrap_or_default();
                    event
                        .arguments
                        .put(name.strip_suffix(" id").filter(|name| is_place(name)).unwrap_or(&name), value);
                }
                (11, ProtoValue::Number(gpu)) => event.thread.0 = gpu.to_string(),
                (13, ProtoValue::Number(number)) => queue = self.name(head, STAGES, number),
                (14, ProtoValue::Number(number)) => stage = self.name(head, STAGES, number),
                (17, ProtoValue::Message(name)) => event.name = name.text(),
                (20, ProtoValue::Number(name)) => event.name = self.name(head, EVENT_NAMES, name),
                (21, ProtoValue::Message(launch)) => self.launch(launch, head, &mut event.arguments)?,
                _ => {}
            }
        }
        event.category = match stage.as_str() {
            "Kernel" | "kernel" => "kernel".to_owned(),
            "Memcpy" => "gpu_memcpy".to_owned(),
            "Memset" => "gpu_memset".to_owned(),
            _ => stage,
        };
        if event.name.is_empty() {
            event.name.clone_from(&event.category);
        }
        // The name of a queue ends with the number of its stream.
        let stream = queue.trim_start_matches(|letter: char| !letter.is_ascii_digit()).parse().ok();
        event.arguments.stream = event.arguments.stream.or(stream);
        self.count()?;
        self.reading.take(event);
        Ok(())
    }

    /// The sizes of a launch, and arguments with numbers.
    fn launch(
        &self,
        message: ProtoReader<'_>,
        head: PacketHead,
        arguments: &mut EventArguments,
    ) -> Result<(), String> {
        for field in message {
            match field? {
                (1, ProtoValue::Message(sizes)) => arguments.grid = sizes.extent()?,
                (2, ProtoValue::Message(sizes)) => arguments.block = sizes.extent()?,
                (3, ProtoValue::Message(argument)) => {
                    let name = argument.number(1)?.map(|number| self.name(head, LAUNCH_ARGUMENTS, number));
                    let value = argument.number(4)?.or(argument.number(3)?);
                    let Some((name, value)) = name.zip(value) else { continue };
                    match name.as_str() {
                        "registers_per_thread" => arguments.put("registers per thread", value.to_string()),
                        "stallmap_kernel_id" => arguments.put("correlation", value.to_string()),
                        _ => {}
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn finish(mut self) -> Result<TraceModel, String> {
        let without_end = std::mem::take(&mut self.slices).join(|event| self.reading.take(event));
        let trace = &mut self.reading.trace;
        if trace.kernels.is_empty() && trace.works.is_empty() && trace.ops.is_empty() {
            let other = self.reading.left.categories().next();
            let other = other.map(|category| format!("its events are such as of category `{category}`"));
            return Err(self.damage.or(other).unwrap_or_else(|| "it has no kernels and no ops".to_owned()));
        }
        trace.losses.add_many(
            LossKind::Source,
            "slices without an end, or an end without a begin",
            without_end,
            None,
        );
        for part in [
            "allocations",
            "directions of copies",
            "GPUs",
            "GPU work beyond the begin of the next on its lane",
        ] {
            trace.losses.lacks(part);
        }
        trace.facts.insert("kineto.form".to_owned(), "packets".to_owned());
        Ok(self.reading.finish())
    }
}

/// Names of arguments that have ` id` behind them here, and not in JSON.
fn is_place(name: &str) -> bool {
    matches!(name, "device" | "stream" | "context")
}
