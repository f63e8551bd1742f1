//! The Firefox Profiler's processed profile: samples at the times of their launches, and launches as markers.
//!
//! Without samples, the weight of a launch is its time.

use std::collections::BTreeMap;
use std::time::Duration;

use fxprof_processed_profile::{
    CategoryHandle, CpuDelta, Frame, FrameFlags, FrameInfo, MarkerFieldFlags, MarkerFieldFormat,
    MarkerTiming, Profile, ReferenceTimestamp, SamplingInterval, StaticSchemaMarker, StaticSchemaMarkerField,
    StringHandle, ThreadHandle, Timestamp,
};
use stallmap::library::queries::export as queries;
use stallmap_console::exit::Outcome;

use crate::round::whole;
use crate::source::{ExportSource, FileFormat, json as document};
use crate::stack::LaunchStack;
use crate::timeline::{CaptureTimeline, TimelineLaunch};

/// The Firefox Profiler.
pub(crate) const FORMAT: FileFormat = FileFormat {
    queries: &[
        queries::LAUNCHES,
        queries::CALLS,
        queries::COPIES,
        queries::PROGRAM,
        queries::DEVICES,
        queries::LOSSES,
        queries::CLOCKS,
        queries::MOMENTS,
        queries::LAUNCH_STACKS,
        queries::LAUNCH_PATHS,
    ],
    write,
};

/// A launch as a marker.
struct LaunchMarker {
    name: StringHandle,
    time_source: StringHandle,
    samples: f64,
}

impl StaticSchemaMarker for LaunchMarker {
    const UNIQUE_MARKER_TYPE_NAME: &'static str = "launch";
    const DESCRIPTION: Option<&'static str> = Some("A launch of the program.");
    const FIELDS: &'static [StaticSchemaMarkerField] = &[
        StaticSchemaMarkerField {
            key: "samples",
            label: "samples",
            format: MarkerFieldFormat::Decimal,
            flags: MarkerFieldFlags::empty(),
        },
        StaticSchemaMarkerField {
            key: "time",
            label: "time",
            format: MarkerFieldFormat::String,
            flags: MarkerFieldFlags::SEARCHABLE,
        },
    ];

    fn name(&self, _profile: &mut Profile) -> StringHandle {
        self.name
    }

    fn category(&self, _profile: &mut Profile) -> CategoryHandle {
        CategoryHandle::OTHER
    }

    fn string_field_value(&self, _field_index: u32) -> StringHandle {
        self.time_source
    }

    fn number_field_value(&self, _field_index: u32) -> f64 {
        self.samples
    }
}

fn write(source: &ExportSource) -> Outcome<Vec<u8>> {
    let timeline = CaptureTimeline::read(source)?;
    let stacks: Vec<LaunchStack> = source.read(queries::LAUNCH_STACKS)?;
    if !stacks.is_empty() {
        return document(&profile(&timeline, &stacks, ""));
    }
    let stacks: Vec<LaunchStack> = source.read(queries::LAUNCH_PATHS)?;
    document(&profile(&timeline, &stacks, ", a sample is 1 ns"))
}

/// The profile. A note stands behind the names of GPUs.
fn profile(timeline: &CaptureTimeline, stacks: &[LaunchStack], note: &str) -> Profile {
    let begin = timeline.begin_ns();
    let reference = ReferenceTimestamp::from_duration_since_unix_epoch(Duration::from_nanos(begin));
    let product = timeline.processes.first().map_or("stallmap", |process| process.program.as_str());
    let mut profile = Profile::new(product, reference, SamplingInterval::from_millis(1));
    // Functions have names already: the viewer must not look for symbols.
    profile.set_symbolicated(true);
    let since = |ns: u64| Timestamp::from_nanos_since_reference(ns.saturating_sub(begin));
    let mut gpus: BTreeMap<(i64, i64), ThreadHandle> = BTreeMap::new();
    let mut times = BTreeMap::new();
    let facts: Vec<String> = timeline.facts().iter().map(|(name, text)| format!("{name}: {text}")).collect();
    let time_source = profile.intern_string(&facts.join("; "));
    for launch in &timeline.launches {
        let key = (launch.process_id, launch.device_id);
        let thread = *gpus.entry(key).or_insert_with(|| gpu(&mut profile, timeline, launch, note));
        let Some(begin) = launch.begin_ns() else { continue };
        times.insert(launch.kernel_id, (thread, since(begin)));
        let name = profile.intern_string(launch.short_kernel.as_deref().unwrap_or(launch.name()));
        let timing = match launch.duration() {
            Some(duration) => MarkerTiming::Interval(since(begin), since(begin + duration)),
            None => MarkerTiming::Instant(since(begin)),
        };
        let samples = launch.samples.unwrap_or(0.0);
        profile.add_marker(thread, timing, LaunchMarker { name, time_source, samples });
    }
    add_samples(&mut profile, stacks, &times, gpus.values().next().copied());
    profile
}

/// A GPU as a thread of its process, which has its rank's name.
fn gpu(
    profile: &mut Profile,
    timeline: &CaptureTimeline,
    launch: &TimelineLaunch,
    note: &str,
) -> ThreadHandle {
    let start = Timestamp::from_nanos_since_reference(0);
    let device = timeline.devices.iter().find(|device| device.id == launch.device_id);
    let gpu = device.map_or("GPU", |device| device.name.as_str());
    let process = timeline.processes.iter().find(|process| process.run_id == launch.run_id);
    let rank = process.and_then(|process| process.rank);
    let name = rank.map_or_else(|| gpu.to_owned(), |rank| format!("rank {rank}, {gpu}"));
    let pid = u32::try_from(launch.process_id).unwrap_or(0);
    let process = profile.add_process(&name, pid, start);
    let thread = profile.add_thread(process, pid, start, true);
    profile.set_thread_name(thread, &format!("GPU {}{note}", launch.device_id));
    thread
}

/// Adds all samples. Those of launches without a time are at the beginning: none is lost.
fn add_samples(
    profile: &mut Profile,
    stacks: &[LaunchStack],
    times: &BTreeMap<u64, (ThreadHandle, Timestamp)>,
    first: Option<ThreadHandle>,
) {
    let counts = whole(&stacks.iter().map(|stack| stack.samples).collect::<Vec<_>>());
    let start = Timestamp::from_nanos_since_reference(0);
    for (stack, count) in stacks.iter().zip(counts) {
        let place = times.get(&stack.kernel_id).copied().or(first.map(|thread| (thread, start)));
        let Some((thread, time)) = place else { continue };
        let path = stack.path().into_iter().map(|frame| {
            let name = if frame.file.is_empty() {
                frame.name
            } else {
                format!("{} ({}:{})", frame.name, frame.file, frame.line)
            };
            FrameInfo {
                frame: Frame::Label(profile.intern_string(&name)),
                category_pair: CategoryHandle::OTHER.into(),
                flags: FrameFlags::empty(),
            }
        });
        let path: Vec<FrameInfo> = path.collect();
        let path = profile.intern_stack_frames(thread, path.into_iter());
        // Weights have 32 bits: a larger count is several samples.
        let mut rest = count;
        while rest > 0 {
            let weight = i32::try_from(rest).unwrap_or(i32::MAX);
            profile.add_sample(thread, time, path, CpuDelta::ZERO, weight);
            rest -= u64::from(weight.unsigned_abs());
        }
    }
}
