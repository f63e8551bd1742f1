//! Texts of a recording within the bounds of a capture: a reader would refuse longer ones.

use std::rc::Rc;

use stallmap_readers::model::Trace;
use stallmap_schema::capture::bounds::TEXT_BYTES;
use stallmap_schema::word::LossKind;

/// Cuts texts that are too long, and counts them.
pub(crate) fn texts(trace: &mut Trace) {
    let mut count = 0;
    let shared = trace.kernels.iter_mut().map(|kernel| &mut kernel.name);
    let shared = shared.chain(trace.counters.iter_mut().map(|counter| &mut counter.metric));
    let shared = shared.chain(trace.samples.iter_mut().flat_map(|row| [&mut row.function, &mut row.reason]));
    for text in shared.chain(trace.pending.iter_mut().filter_map(|pending| pending.name.as_mut())) {
        if let Some(short) = cut(text) {
            *text = Rc::from(short);
            count += 1;
        }
    }
    let own = trace.ops.iter_mut().map(|op| &mut op.name);
    let own = own.chain(trace.frames.iter_mut().flat_map(|frame| [&mut frame.file, &mut frame.function]));
    let own = own.chain(trace.counters.iter_mut().map(|counter| &mut counter.unit));
    let own = own.chain(trace.devices.iter_mut().map(|device| &mut device.name));
    for text in own.chain(trace.processes.iter_mut().map(|process| &mut process.program)) {
        if let Some(length) = cut(text).map(str::len) {
            text.truncate(length);
            count += 1;
        }
    }
    trace.losses.add_many(LossKind::Source, "names longer than 64 KiB, cut there", count, None);
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
