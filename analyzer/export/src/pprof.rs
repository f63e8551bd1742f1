//! pprof's profile: six messages, compressed. Counts are whole, and their sum is the rounded sum of the samples.

use std::collections::BTreeMap;

use stallmap::library::queries::export as queries;
use stallmap_console::exit::Outcome;
use stallmap_console::rows;

use crate::proto::MessageBuilder;
use crate::round::{unsigned, whole};
use crate::source::{ExportSource, FileFormat, gzip};
use crate::stack::{CallFrame, CallStack, StackSource};

/// pprof.
pub(crate) const FORMAT: FileFormat = FileFormat { queries: &[queries::STACKS, queries::PROGRAM], write };

rows! {
    /// A process of the program.
    struct PprofProcess {
        started_ns: i64,
        ended_ns: Option<i64>,
    }
}

fn write(source: &ExportSource) -> Outcome<Vec<u8>> {
    let stacks = StackSource::read(source)?;
    let processes: Vec<PprofProcess> = source.read(queries::PROGRAM)?;
    gzip(&profile(&stacks, &processes).finish())
}

fn profile(stacks: &StackSource, processes: &[PprofProcess]) -> MessageBuilder {
    let mut texts = StringTable::default();
    let mut places = PprofLocations::default();
    let counts =
        |value: &dyn Fn(&CallStack) -> f64| whole(&stacks.rows.iter().map(value).collect::<Vec<_>>());
    let samples = counts(&|stack| stack.samples);
    let memory = counts(&|stack| stack.memory_samples);
    let times = counts(&|stack| stack.time_ns.unwrap_or(0.0));
    let mut profile = MessageBuilder::default();
    let kinds = [("samples", "count"), ("memory_samples", "count"), ("gpu_time", "nanoseconds")];
    // Without a clock or a period in the capture, time is not known.
    let is_known = [stacks.has_samples, stacks.has_samples, stacks.has_time];
    for ((name, unit), _) in kinds.into_iter().zip(is_known).filter(|(_, is_known)| *is_known) {
        profile.push(1, &MessageBuilder::default().uint(1, texts.id(name)).uint(2, texts.id(unit)));
    }
    let counted = stacks.rows.iter().zip(samples).zip(memory).zip(times);
    for (((stack, samples), memory), time) in counted {
        let path: Vec<u64> = stack.path().into_iter().rev().map(|frame| places.id(frame)).collect();
        let values = [samples, memory, time].into_iter().zip(is_known);
        let values = values.filter(|(_, is_known)| *is_known).map(|(value, _)| value);
        profile.push(2, &MessageBuilder::default().packed(1, path).packed(2, values));
    }
    for (frame, id) in &places.0 {
        let line = MessageBuilder::default().uint(1, *id).uint(2, u64::from(frame.line));
        profile.push(4, &MessageBuilder::default().uint(1, *id).message(4, &line));
        let function = MessageBuilder::default()
            .uint(1, *id)
            .uint(2, texts.id(&frame.name))
            .uint(3, texts.id(&frame.name));
        profile.push(5, &function.uint(4, texts.id(&frame.file)));
    }
    let comment = texts.id("gpu_time: measured, or estimated from the samples: see the view launch_time");
    let profile = texts.0.iter().fold(profile, |profile, text| profile.text(6, text));
    let begin = processes.iter().map(|process| process.started_ns).min();
    let end = processes.iter().filter_map(|process| process.ended_ns).max();
    profile
        .with(begin, |profile, begin| profile.uint(9, unsigned(begin)))
        .with(begin.zip(end), |profile, (begin, end)| profile.uint(10, unsigned(end - begin)))
        .uint(13, comment)
}

/// The list of texts. The first is empty, as the format demands.
struct StringTable(Vec<String>, BTreeMap<String, u64>);

impl Default for StringTable {
    fn default() -> Self {
        Self(vec![String::new()], BTreeMap::from([(String::new(), 0)]))
    }
}

impl StringTable {
    fn id(&mut self, text: &str) -> u64 {
        if let Some(id) = self.1.get(text) {
            return *id;
        }
        let id = self.0.len() as u64;
        self.0.push(text.to_owned());
        self.1.insert(text.to_owned(), id);
        id
    }
}

/// Locations by frame, numbered from 1.
#[derive(Default)]
struct PprofLocations(BTreeMap<CallFrame, u64>);

impl PprofLocations {
    fn id(&mut self, frame: CallFrame) -> u64 {
        let next = self.0.len() as u64 + 1;
        *self.0.entry(frame).or_insert(next)
    }
}
