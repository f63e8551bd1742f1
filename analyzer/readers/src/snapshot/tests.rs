//! Snapshots as a whole, written as pickles of a few opcodes.

use std::fs;

use super::*;

fn text(text: &str) -> Vec<u8> {
    let length = u32::try_from(text.len()).unwrap().to_le_bytes();
    [b"X".as_slice(), &length, text.as_bytes()].concat()
}

fn number(number: i32) -> Vec<u8> {
    [b"J".as_slice(), &number.to_le_bytes()].concat()
}

fn list(items: &[Vec<u8>]) -> Vec<u8> {
    [b"](".as_slice(), &items.concat(), b"e"].concat()
}

fn dict(entries: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let entries: Vec<Vec<u8>> =
        entries.iter().map(|(key, value)| [text(key), value.clone()].concat()).collect();
    [b"}(".as_slice(), &entries.concat(), b"u"].concat()
}

fn stack(line: i32) -> Vec<u8> {
    list(&[dict(&[("filename", text("train.py")), ("line", number(line)), ("name", text("step"))])])
}

/// The trace of a snapshot.
fn snapshot(entries: &[(&str, Vec<u8>)]) -> TraceModel {
    trace(&dict(entries)).unwrap()
}

/// The trace of a pickled value.
fn trace(root: &[u8]) -> ReadResult<TraceModel> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("snapshot.pickle");
    fs::write(&path, [b"\x80\x02".as_slice(), root, b"."].concat()).unwrap();
    read(&ImportInput::from_path(&path).unwrap())
}

#[test]
fn blocks_of_early_releases_have_the_stack_and_the_request_of_their_history() {
    let entry = |address, bytes, line| {
        dict(&[("addr", number(address)), ("real_size", number(bytes)), ("frames", stack(line))])
    };
    let block = dict(&[
        ("size", number(4096)),
        ("state", text("active_allocated")),
        ("history", list(&[entry(9_000, 10, 1), entry(8_192, 4_000, 7)])),
    ]);
    let segment =
        dict(&[("address", number(8_192)), ("total_size", number(4_096)), ("blocks", list(&[block]))]);
    let found = snapshot(&[("segments", list(&[segment])), ("device_traces", list(&[]))]);
    let storage = &found.storages[0];
    assert_eq!((storage.address, storage.bytes, storage.requested), (8_192, 4_096, Some(4_000)));
    assert_eq!((storage.op, found.stacks.len(), found.frames[0].line), (Some(0), 1, 7));
}

#[test]
fn requests_of_frees_are_no_loss_and_texts_of_the_program_are_counted() {
    let event = |action: &str| {
        dict(&[
            ("action", text(action)),
            ("addr", number(512)),
            ("size", number(512)),
            ("time_us", number(5)),
            ("user_metadata", text("layer")),
        ])
    };
    let events = ["alloc", "free_requested", "free_completed", "snapshot"].map(event);
    let found = snapshot(&[
        ("device_traces", list(&[list(&events)])),
        ("external_annotations", list(&[dict(&[]), dict(&[])])),
    ]);
    let losses: Vec<(&str, u64)> = found
        .losses
        .rows()
        .filter(|(.., detail)| detail.is_some())
        .map(|(_, reason, count, _)| (reason, count))
        .collect();
    assert_eq!(losses, [("texts that the program gave to memory events", 4)]);
    let count = |part: &str| {
        found.losses.rows().filter(|(_, reason, ..)| reason.contains(part)).map(|row| row.2).sum::<u64>()
    };
    assert_eq!([count("of other kinds"), count("annotations")], [1, 2]);
    assert_eq!(found.storages[0].free_ns, Some(5_000));
}

#[test]
fn code_of_notebooks_has_a_stack_and_frames_of_other_languages_are_counted() {
    let frame = |file: &str| dict(&[("filename", text(file)), ("line", number(3)), ("name", text("f"))]);
    let event = |address, frames: &[Vec<u8>]| {
        let known = [("action", text("alloc")), ("addr", number(address)), ("size", number(512))];
        dict(&[known.as_slice(), &[("time_us", number(5)), ("frames", list(frames))]].concat())
    };
    let notebook = event(512, &[frame("??"), frame("<ipython-input-3-6a>"), frame("<eval_with_key>.1")]);
    let other = event(1_024, &[frame("alloc.cpp")]);
    let found = snapshot(&[("device_traces", list(&[list(&[notebook, other])]))]);
    let files: Vec<&str> = found.frames.iter().map(|frame| frame.file.as_str()).collect();
    assert_eq!(files, ["<ipython-input-3-6a>", "<eval_with_key>.1"]);
    assert_eq!((found.storages[0].op, found.storages[1].op), (Some(0), None));
    let lost = found.losses.rows().find(|(_, reason, ..)| reason.contains("not of Python"));
    assert_eq!(lost.map(|(_, _, count, _)| count), Some(2));
}

/// A segment at an address, with blocks of a state.
fn segment(states: &[&str]) -> Vec<u8> {
    let block = |state: &&str| dict(&[("size", number(512)), ("state", text(state))]);
    let blocks: Vec<Vec<u8>> = states.iter().map(block).collect();
    dict(&[("address", number(8_192)), ("total_size", number(4_096)), ("blocks", list(&blocks))])
}

#[test]
fn segments_without_a_document_are_those_of_the_first_release() {
    let found = trace(&list(&[segment(&["active_allocated", "inactive"])])).unwrap();
    assert_eq!((found.segments.len(), found.storages.len()), (1, 1));
    let error = trace(&list(&[dict(&[("size", number(5))])])).unwrap_err();
    assert!(error.to_string().contains("neither `device_traces` nor `segments`"), "{error}");
}

#[test]
fn blocks_that_wait_for_a_stream_are_memory() {
    let states = ["active_allocated", "active_awaiting_free", "active_pending_free", "inactive"];
    let found = snapshot(&[("segments", list(&[segment(&states)]))]);
    let places: Vec<u64> = found.storages.iter().map(|storage| storage.address).collect();
    assert_eq!(places, [8_192, 8_704, 9_216]);
}

#[test]
fn nothing_is_freed_before_its_allocation() {
    let event = |action: &str, address, time: Option<i32>| {
        let place = [("action", text(action)), ("addr", number(address)), ("size", number(512))];
        let time = time.map(|time| ("time_us", number(time)));
        dict(&place.into_iter().chain(time).collect::<Vec<_>>())
    };
    let events = [
        event("segment_alloc", 0, Some(50)),
        event("alloc", 512, Some(60)),
        event("free_completed", 512, None),
        event("alloc", 1_024, Some(70)),
        event("free_completed", 1_024, Some(65)),
        event("segment_free", 0, Some(40)),
    ];
    let found = snapshot(&[("device_traces", list(&[list(&events)]))]);
    let spans: Vec<_> = found.storages.iter().map(|storage| (storage.alloc_ns, storage.free_ns)).collect();
    assert_eq!(spans, [(Some(60_000), Some(60_000)), (Some(70_000), Some(70_000))]);
    assert_eq!(found.segments[0].free_ns, Some(50_000));
    let losses: Vec<&str> = found.losses.rows().map(|(_, reason, ..)| reason).collect();
    assert!(losses.iter().any(|reason| reason.contains("of the events before them")), "{losses:?}");
    assert!(losses.iter().any(|reason| reason.contains("frees before their allocation")), "{losses:?}");
}

#[test]
fn memory_ends_where_its_address_is_allocated_again() {
    let event = |time| {
        let place = [("action", text("alloc")), ("addr", number(512)), ("size", number(512))];
        dict(&place.into_iter().chain([("time_us", number(time))]).collect::<Vec<_>>())
    };
    let found = snapshot(&[("device_traces", list(&[list(&[event(5), event(9)])]))]);
    let ends: Vec<_> = found.storages.iter().map(|storage| storage.free_ns).collect();
    assert_eq!(ends, [Some(9_000), None]);
    let is_lost = |reason: &str| reason.contains("allocated again");
    assert_eq!(found.losses.rows().filter(|(_, reason, ..)| is_lost(reason)).count(), 1);
}
