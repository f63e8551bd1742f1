//! Launches as stages of the GPU.

use super::names::{ARGUMENTS, InternedStrings, STAGE};
use super::packet_at;
use crate::proto::MessageBuilder;
use crate::timeline::{CaptureTimeline, SharedCalls, TimelineLaunch};

/// One packet per launch with a time.
pub(super) fn packets<'a>(
    timeline: &'a CaptureTimeline,
    names: &'a InternedStrings,
    calls: &'a SharedCalls,
) -> impl Iterator<Item = MessageBuilder> + 'a {
    timeline
        .launches
        .iter()
        .filter_map(|launch| Some(packet_at(launch.begin_ns()?).message(53, &stage(launch, names, calls))))
}

fn stage(launch: &TimelineLaunch, names: &InternedStrings, calls: &SharedCalls) -> MessageBuilder {
    let mangled = launch.mangled_name.as_deref().unwrap_or_default();
    let kernel = names.kernel(launch.name(), mangled);
    let gpu = names.gpu(launch.run_id, launch.device_id);
    let extra = |name: &str, value: String| MessageBuilder::default().text(1, name).text(2, &value);
    MessageBuilder::default()
        .uint(1, event_id(launch.kernel_id))
        // Without a measurement the event has no length.
        .with(launch.duration(), |stage, duration| stage.uint(2, duration))
        .with(names.context(launch.process_id), |stage, context| stage.uint(5, context))
        .int(11, gpu)
        .with(names.stream(launch.stream_id.unwrap_or(0)), |stage, stream| stage.uint(13, stream))
        .uint(14, STAGE)
        .with(kernel, |stage, kernel| stage.uint(19, kernel).uint(20, kernel))
        .message(21, &arguments(launch))
        // A reader takes it in place of the kernel's own number: kernels of one call share that of the first one.
        .messages(
            6,
            calls
                .of_launch(launch)
                .and_then(|works| works.kernels.first())
                .map(|first| extra("correlation", first.to_string())),
        )
        // The number of a GPU among those of all ranks is not its ordinal.
        .messages(6, (gpu != launch.device_id).then(|| extra("device", launch.device_id.to_string())))
}

/// The event of a launch. 0 means "none" in the format.
pub(super) fn event_id(kernel_id: u64) -> u64 {
    kernel_id + 1
}

fn arguments(launch: &TimelineLaunch) -> MessageBuilder {
    let extent =
        |[x, y, z]: [u32; 3]| MessageBuilder::default().uint(1, x.into()).uint(2, y.into()).uint(3, z.into());
    let product = |sizes: [u32; 3]| sizes.iter().map(|size| u64::from(*size)).fold(1, u64::saturating_mul);
    let (blocks, threads) = (product(launch.grid()), product(launch.block()));
    let counts = [
        ("grid_size", Some(blocks)),
        ("workgroup_size", Some(threads)),
        ("thread_count", Some(blocks.saturating_mul(threads))),
        ("registers_per_thread", launch.register_count.map(u64::from)),
        ("shared_mem_static", launch.static_shared_bytes.map(u64::from)),
        ("shared_mem_dynamic", launch.dynamic_shared_bytes.map(u64::from)),
        ("stallmap_kernel_id", Some(launch.kernel_id)),
        ("graph_id", launch.graph_id),
    ];
    let values = [
        ("waves_per_multiprocessor", launch.waves),
        ("occupancy", launch.occupancy),
        ("samples", launch.samples),
        ("memory_samples", launch.memory_samples),
    ];
    let counts = counts.into_iter().filter_map(|(name, value)| Some(argument(name)?.uint(4, value?)));
    let values = values.into_iter().filter_map(|(name, value)| Some(argument(name)?.double(5, value?)));
    MessageBuilder::default()
        .message(1, &extent(launch.grid()))
        .message(2, &extent(launch.block()))
        .messages(3, counts.chain(values))
}

/// An argument with its number.
fn argument(name: &str) -> Option<MessageBuilder> {
    let number = (1..).zip(ARGUMENTS).find(|(_, argument)| *argument == name)?.0;
    Some(MessageBuilder::default().uint(1, number))
}
