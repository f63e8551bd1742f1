//! Texts and numbers of a recording within the bounds of a capture: a reader would refuse others.

use std::rc::Rc;

use stallmap_readers::trace::model::{TraceCall, TraceModel};
use stallmap_schema::capture::bounds::{AMOUNT, FAR, TEXT_BYTES};
use stallmap_schema::word::LossKind;

/// Cuts texts that are too long, and counts them.
pub(crate) fn texts(trace: &mut TraceModel) {
    let mut count = 0;
    let names = trace
        .kernels
        .iter_mut()
        .flat_map(|kernel| std::iter::once(&mut kernel.name).chain(&mut kernel.call_name));
    let of_works = trace.works.iter_mut().flat_map(|work| work.call_name.iter_mut().chain(&mut work.memory));
    let shared = names.chain(of_works);
    let of_ops = trace.ops.iter_mut().flat_map(|op| {
        let module = op.details.as_mut().and_then(|details| details.module.as_mut());
        std::iter::once(&mut op.name).chain(module)
    });
    let shared = shared.chain(of_ops);
    let shared = shared.chain(trace.counters.iter_mut().map(|counter| &mut counter.metric));
    let shared = shared.chain(trace.region_numbers.iter_mut().map(|number| &mut number.name));
    let shared = shared.chain(trace.samples.iter_mut().flat_map(|row| [&mut row.function, &mut row.reason]));
    for text in shared.chain(trace.pending.iter_mut().filter_map(|pending| pending.name.as_mut())) {
        if let Some(short) = cut(text) {
            *text = Rc::from(short);
            count += 1;
        }
    }
    let own = trace.frames.iter_mut().flat_map(|frame| [&mut frame.file, &mut frame.function]);
    let own = own.chain(trace.counters.iter_mut().map(|counter| &mut counter.unit));
    let of_devices =
        trace.devices.iter_mut().flat_map(|device| [Some(&mut device.name), device.uuid.as_mut()]);
    let own = own.chain(of_devices.flatten()).chain(trace.facts.values_mut());
    let of_collectives = trace.kernels.iter_mut().filter_map(|kernel| kernel.collective.as_deref_mut());
    let own = own.chain(of_collectives.flat_map(|call| {
        let texts = [&mut call.name, &mut call.dtype, &mut call.group];
        texts.into_iter().chain([&mut call.group_description, &mut call.group_ranks]).flatten()
    }));
    for text in own.chain(trace.processes.iter_mut().map(|process| &mut process.program)) {
        if let Some(length) = cut(text).map(str::len) {
            text.truncate(length);
            count += 1;
        }
    }
    trace.losses.add_many(LossKind::Source, "names longer than 64 KiB, cut there", count, None);
}

/// Moves numbers beyond their bounds to the bounds, and counts them.
pub(crate) fn numbers(trace: &mut TraceModel) {
    let mut times = 0;
    let mut time = |time: &mut i64| times += moved(time, -FAR, FAR);
    let mut call =
        |call: &mut TraceCall| [&mut call.begin_ns, &mut call.end_ns].into_iter().for_each(&mut time);
    trace.ops.iter_mut().for_each(|op| call(&mut op.call));
    trace.kernels.iter_mut().filter_map(|kernel| kernel.call.as_mut()).for_each(call);
    for (begin, end) in trace.kernels.iter_mut().filter_map(|kernel| kernel.time_ns.as_mut()) {
        [begin, end].into_iter().for_each(&mut time);
    }
    trace.kernels.iter_mut().filter_map(|kernel| kernel.begin_ns.as_mut()).for_each(&mut time);
    for work in &mut trace.works {
        let calls = work.call.iter_mut().flat_map(|call| [&mut call.begin_ns, &mut call.end_ns]);
        std::iter::once(&mut work.begin_ns).chain(&mut work.end_ns).chain(calls).for_each(&mut time);
    }
    for storage in &mut trace.storages {
        storage.alloc_ns.iter_mut().chain(&mut storage.free_ns).for_each(&mut time);
    }
    for segment in &mut trace.segments {
        segment.alloc_ns.iter_mut().chain(&mut segment.free_ns).for_each(&mut time);
    }
    trace.failures.iter_mut().map(|failure| &mut failure.time_ns).for_each(&mut time);
    trace.losses.add_many(LossKind::Source, "times beyond 2^62 ns, moved there", times, None);
    let sequences = trace.ops.iter_mut().filter_map(|op| op.details.as_mut()?.sequence.as_mut());
    let calls = trace.kernels.iter_mut().filter_map(|kernel| kernel.collective.as_deref_mut());
    let sequences = sequences.chain(calls.filter_map(|call| call.sequence.as_mut()));
    let far: u64 = sequences.map(|number| moved(number, -FAR, FAR)).sum();

    let amounts = trace.works.iter_mut().filter_map(|work| work.bytes.as_mut());
    let sizes = trace
        .storages
        .iter_mut()
        .flat_map(|storage| std::iter::once(&mut storage.bytes).chain(&mut storage.requested));
    let sizes = sizes.chain(trace.segments.iter_mut().map(|segment| &mut segment.bytes));
    let sizes = sizes.chain(
        trace.failures.iter_mut().flat_map(|failure| failure.bytes.iter_mut().chain(&mut failure.free_bytes)),
    );
    let amounts = amounts.chain(sizes);
    let calls = trace.kernels.iter_mut().filter_map(|kernel| kernel.collective.as_deref_mut());
    let amounts = amounts
        .chain(calls.flat_map(|call| [&mut call.in_elements, &mut call.out_elements].into_iter().flatten()));
    let amounts = amounts.chain(trace.accesses.iter_mut().map(|access| &mut access.span_bytes));
    let amounts =
        amounts.chain(trace.samples.iter_mut().flat_map(|row| [&mut row.samples, &mut row.not_issued]));
    let amounts = amounts.chain(trace.samplings.iter_mut().flat_map(|row| [&mut row.taken, &mut row.lost]));
    let amounts = amounts
        .chain(trace.devices.iter_mut().flat_map(|device| [&mut device.memory_bytes, &mut device.l2_bytes]));
    let mut count: u64 = far + amounts.map(|amount| moved(amount, 0, AMOUNT)).sum::<u64>();
    for row in &mut trace.samplings {
        row.period_cycles = row.period_cycles.filter(|period| (1..=AMOUNT).contains(period));
    }
    for counter in &mut trace.counters {
        let is_wrong = counter.value.is_some_and(|value| !value.is_finite());
        counter.value = counter.value.filter(|_| !is_wrong);
        count += u64::from(is_wrong);
    }
    trace.losses.add_many(LossKind::Source, "numbers beyond all bounds, moved there or dropped", count, None);
}

/// Moves a number into its bounds. Returns 1 if it was outside.
fn moved<T: Ord + Copy>(number: &mut T, least: T, most: T) -> u64 {
    let bounded = (*number).clamp(least, most);
    let is_outside = bounded != *number;
    *number = bounded;
    u64::from(is_outside)
}

/// The part of a text within the bound. None if it is all of it.
fn cut(text: &str) -> Option<&str> {
    if text.len() <= TEXT_BYTES {
        return None;
    }
    let end = (0..=TEXT_BYTES).rev().find(|end| text.is_char_boundary(*end))?;
    text.get(..end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_stay_whole() {
        assert_eq!(cut("short"), None);
        let long = format!("x{}", "é".repeat(TEXT_BYTES));
        assert_eq!(cut(&long).map(str::len), Some(TEXT_BYTES - 1));
    }
}
