//! Names that packets refer to by number: the data of the first packet.

use std::collections::{BTreeMap, BTreeSet};

use crate::proto::MessageBuilder;
use crate::timeline::{CaptureTimeline, TimelineCounter};

/// The stages of all kernels, copies and fills, as numbers among the GPU specifications.
pub(super) const STAGE: u64 = 1;
pub(super) const COPY_STAGE: u64 = 2;
pub(super) const FILL_STAGE: u64 = 3;
/// Their names. Those of copies and fills are PyTorch's.
const STAGES: [(u64, &str); 3] = [(STAGE, "kernel"), (COPY_STAGE, "Memcpy"), (FILL_STAGE, "Memset")];
/// Numbers of the first stream's specification.
const FIRST_STREAM: u64 = 4;
/// Category of compute work.
const COMPUTE: u64 = 2;
/// CUDA, as the interface of a graphics context.
const CUDA: u64 = 4;
/// The counter group without which no kernel shows a counter.
const COMPUTE_GROUP: u64 = 6;
/// A counter's value belongs to the time after it: otherwise a viewer moves it to the launch before.
const FORWARDS: u64 = 2;
/// Extensions of interned data for GPU compute, by number: the base messages do not have them.
const COMPUTE_KERNELS: u32 = 1000;
const COMPUTE_ARGUMENTS: u32 = 1001;

/// Scalar arguments of launches. The compute page reads these names.
pub(super) const ARGUMENTS: [&str; 12] = [
    "grid_size",
    "workgroup_size",
    "thread_count",
    "registers_per_thread",
    "shared_mem_static",
    "shared_mem_dynamic",
    "waves_per_multiprocessor",
    "occupancy",
    "samples",
    "memory_samples",
    "stallmap_kernel_id",
    "graph_id",
];

/// The numbers of names.
#[derive(Default)]
pub(super) struct InternedStrings {
    /// Kernels: source-level name, mangled name, number.
    kernels: BTreeMap<(String, String), u64>,
    /// Streams of GPUs of processes.
    streams: BTreeMap<u32, u64>,
    /// Processes, as contexts.
    contexts: BTreeMap<i64, u64>,
    /// Numbers of GPUs by run and ordinal, where several ranks have the same ordinals.
    gpus: BTreeMap<(u32, i64), i64>,
    /// Counters with their units.
    counters: BTreeMap<String, (u64, String)>,
    arch: String,
}

impl InternedStrings {
    /// The names of a timeline and its counters.
    pub(super) fn from_timeline(timeline: &CaptureTimeline, measured: &[TimelineCounter]) -> Self {
        let mut names = Self { gpus: gpus(timeline), ..Self::default() };
        for launch in &timeline.launches {
            let next = names.kernels.len() as u64 + 1;
            let mangled = launch.mangled_name.clone().unwrap_or_default();
            names.kernels.entry((launch.name().to_owned(), mangled)).or_insert(next);
            let next = names.streams.len() as u64 + FIRST_STREAM;
            names.streams.entry(launch.stream_id.unwrap_or(0)).or_insert(next);
            let next = names.contexts.len() as u64 + 1;
            names.contexts.entry(launch.process_id).or_insert(next);
        }
        for copy in &timeline.copies {
            let next = names.streams.len() as u64 + FIRST_STREAM;
            names.streams.entry(copy.stream_id.unwrap_or(0)).or_insert(next);
            let next = names.contexts.len() as u64 + 1;
            names.contexts.entry(copy.process_id).or_insert(next);
        }
        for counter in measured {
            let next = names.counters.len() as u64 + 1;
            names.counters.entry(counter.metric.clone()).or_insert((next, counter.unit.clone()));
        }
        if let Some(device) = timeline.devices.first() {
            names.arch = format!("sm_{}{}", device.compute_major, device.compute_minor);
        }
        names
    }

    /// The number of a kernel.
    pub(super) fn kernel(&self, name: &str, mangled: &str) -> Option<u64> {
        self.kernels.get(&(name.to_owned(), mangled.to_owned())).copied()
    }

    /// The number of a stream.
    pub(super) fn stream(&self, stream: u32) -> Option<u64> {
        self.streams.get(&stream).copied()
    }

    /// The number of a process's context.
    pub(super) fn context(&self, process: i64) -> Option<u64> {
        self.contexts.get(&process).copied()
    }

    /// The number of a GPU of a run.
    pub(super) fn gpu(&self, run_id: u32, device: i64) -> i64 {
        self.gpus.get(&(run_id, device)).copied().unwrap_or(device)
    }

    /// The number of a counter.
    pub(super) fn counter(&self, metric: &str) -> Option<u64> {
        self.counters.get(metric).map(|(number, _)| *number)
    }

    /// All names as one message.
    pub(super) fn interned(&self) -> MessageBuilder {
        let named = |number: u64, name: &str| MessageBuilder::default().uint(1, number).text(2, name);
        let stages = STAGES.map(|(number, name)| named(number, name).uint(4, COMPUTE));
        let stream =
            |(stream, number): (&u32, &u64)| named(*number, &format!("stream {stream}")).uint(4, COMPUTE);
        let context = |(process, number): (&i64, &u64)| {
            MessageBuilder::default().uint(1, *number).int(2, *process).uint(3, CUDA)
        };
        let event = |((name, _), number): (&(String, String), &u64)| named(*number, name);
        let kernel = |((name, mangled), number): (&(String, String), &u64)| {
            named(*number, mangled).text(3, name).text(4, &self.arch)
        };
        let arguments = (1..).zip(ARGUMENTS).map(|(number, name)| named(number, name));
        MessageBuilder::default()
            .messages(2, self.kernels.iter().map(event))
            .messages(23, self.contexts.iter().map(context))
            .messages(24, stages.into_iter().chain(self.streams.iter().map(stream)))
            .message(47, &MessageBuilder::default().uint(1, 1).message(2, &self.described()))
            .messages(COMPUTE_KERNELS, self.kernels.iter().map(kernel))
            .messages(COMPUTE_ARGUMENTS, arguments)
    }

    /// The descriptor of all counters.
    fn described(&self) -> MessageBuilder {
        let counter = |(metric, (number, unit)): (&String, &(u64, String))| {
            let spec = MessageBuilder::default().uint(1, *number).text(2, metric).text(3, unit);
            spec.uint(10, COMPUTE_GROUP).uint(11, FORWARDS)
        };
        MessageBuilder::default().messages(1, self.counters.iter().map(counter))
    }
}

/// The GPUs of several ranks, numbered in the order of ranks and ordinals. None with one rank.
fn gpus(timeline: &CaptureTimeline) -> BTreeMap<(u32, i64), i64> {
    if !timeline.ranks.are_several() {
        return BTreeMap::new();
    }
    let place = |run_id: u32, process_id: i64, device: i64| {
        ((run_id, device), (timeline.ranks.of(run_id, Some(process_id)), device))
    };
    let launches =
        timeline.launches.iter().map(|launch| place(launch.run_id, launch.process_id, launch.device_id));
    let copies =
        timeline.copies.iter().filter_map(|copy| Some(place(copy.run_id, copy.process_id, copy.device_id?)));
    let places: BTreeMap<(u32, i64), (Option<u32>, i64)> = launches.chain(copies).collect();
    let known: BTreeSet<(Option<u32>, i64)> = places.values().copied().collect();
    let numbers: BTreeMap<(Option<u32>, i64), i64> = known.into_iter().zip(0..).collect();
    places.into_iter().filter_map(|(key, place)| Some((key, *numbers.get(&place)?))).collect()
}
