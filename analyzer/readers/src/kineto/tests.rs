//! Traces as a whole.

use std::path::Path;

use super::*;
use crate::formats::proto::encoded::EncodedMessage;

/// The trace of some events.
fn trace(events: &[&str]) -> TraceModel {
    let text = format!(r#"{{"traceEvents": [{}]}}"#, events.join(","));
    read(&mut JsonStream::new(text.as_bytes(), Path::new("trace.json"))).unwrap()
}

/// The number of a loss.
fn lost(trace: &TraceModel, part: &str) -> u64 {
    trace.losses.rows().filter(|(_, reason, ..)| reason.contains(part)).map(|(_, _, count, _)| count).sum()
}

/// An op with arguments.
fn op(arguments: &str) -> String {
    format!(
        r#"{{"ph":"X","cat":"cpu_op","name":"aten::mm","pid":1,"tid":1,"ts":10,"dur":5,"args":{{{arguments}}}}}"#
    )
}

#[test]
fn shared_memory_is_that_of_a_launch_and_other_arguments_are_counted() {
    let kernel = r#"{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":20,"dur":3,"args":{"shared memory":49152}}"#;
    let trace = trace(&[kernel, &op(r#""flops": 1024, "Module Hierarchy": "TOP(Net).fc(Linear)""#)]);
    assert_eq!(trace.kernels[0].shared_bytes, Some((0, 49_152)));
    assert_eq!((lost(&trace, "operations of ops"), lost(&trace, "modules around ops")), (1, 1));
}

#[test]
fn lengths_that_exports_estimate_are_no_times() {
    let kernel = |arguments: &str| {
        format!(
            r#"{{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":20,"dur":3,"args":{{{arguments}}}}}"#
        )
    };
    let trace = trace(&[&kernel(r#""duration": "estimated from samples""#), &kernel("")]);
    let times: Vec<_> = trace.kernels.iter().map(|kernel| (kernel.begin_ns, kernel.time_ns)).collect();
    assert_eq!(times, [(Some(20_000), None), (Some(20_000), Some((20_000, 23_000)))]);
    assert_eq!(lost(&trace, "without a duration"), 1);
}

#[test]
fn ops_have_the_stacks_of_their_arguments_without_functions() {
    let stack = op(r#""Call stack": "model.py(12): forward;train.py(40): main""#);
    let found = trace(&[&stack, &stack]);
    assert_eq!(found.stacks, [[0, 1]]);
    let frame = &found.frames[0];
    assert_eq!((&*frame.file, &*frame.function, frame.line), ("model.py", "forward", 12));
    assert!(found.ops.iter().all(|op| op.stack.get() == Some(0)));
    let function =
        r#"{"ph":"X","cat":"python_function","name":"a.py(1): f","pid":1,"tid":1,"ts":9,"dur":9,"args":{}}"#;
    let found = trace(&[&stack, function]);
    assert_eq!((&*found.frames[0].file, lost(&found, "Python stacks of ops")), ("a.py", 1));
}

#[test]
fn kernels_without_a_call_are_of_before_or_of_a_trace_without_calls() {
    let kernel =
        r#"{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":20,"dur":3,"args":{"correlation":1}}"#;
    let call = r#"{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":1,"ts":9,"dur":1,"args":{"correlation":2}}"#;
    assert_eq!(lost(&trace(&[kernel]), "the trace has no calls"), 1);
    assert_eq!(lost(&trace(&[kernel, call]), "launched before it began"), 1);
}

/// A packet with a field.
fn packet(time: u64, field: u64, content: &EncodedMessage) -> EncodedMessage {
    let packet = EncodedMessage::default().uint(8, time).uint(10, 1).message(field, content);
    EncodedMessage::default().message(1, &packet)
}

#[test]
fn work_in_packets_has_the_stream_of_its_queue() {
    let name = |number, name| EncodedMessage::default().uint(1, number).text(2, name);
    let names = [(1, "Kernel"), (2, "Memset"), (3, "stream 20")];
    let names = names
        .iter()
        .fold(EncodedMessage::default(), |list, (number, text)| list.message(24, &name(*number, text)));
    let stage = |stage| EncodedMessage::default().uint(2, 5).uint(13, 3).uint(14, stage).text(17, "k");
    let bytes = [packet(0, 12, &names), packet(10, 53, &stage(1)), packet(20, 53, &stage(2))];
    let bytes: Vec<u8> = bytes.into_iter().flat_map(|packet| packet.0).collect();
    let trace = packets::parse(bytes.as_slice()).unwrap();
    assert_eq!((trace.kernels[0].stream, trace.works[0].stream), (20, Some(20)));
}

#[test]
fn packets_of_other_programs_are_named_by_their_category() {
    let event = |kind: u64| EncodedMessage::default().uint(9, kind).uint(11, 2).text(22, "kernel_dispatch");
    let bytes = [packet(10, 11, &event(1).text(23, "k")), packet(20, 11, &event(2))];
    let bytes: Vec<u8> = bytes.into_iter().flat_map(|packet| packet.0).collect();
    let reason = packets::parse(bytes.as_slice()).unwrap_err();
    assert_eq!(reason, "its events are such as of category `kernel_dispatch`");
}

#[test]
fn ranges_of_the_program_are_no_forward_ops() {
    let range = |name: &str| {
        format!(r#"{{"ph":"X","cat":"user_annotation","name":"{name}","pid":1,"tid":1,"ts":1,"dur":50}}"#)
    };
    let trace = trace(&[&range("train_step"), &range("Optimizer.step#Adam.step"), &op("")]);
    let phases: Vec<Phase> = trace.ops.iter().map(|op| op.phase).collect();
    assert_eq!(phases, [Phase::Other, Phase::Optimizer, Phase::Optimizer]);
}

#[test]
fn ops_without_a_length_have_their_kernels() {
    let op = |name: &str, ts: u64, dur: &str| {
        format!(r#"{{"ph":"X","cat":"cpu_op","name":"{name}","pid":1,"tid":1,"ts":{ts}{dur}}}"#)
    };
    let call = r#"{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":1,"ts":13,"dur":1,"args":{"correlation":1}}"#;
    let kernel =
        r#"{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":20,"dur":30,"args":{"correlation":1}}"#;
    let trace =
        trace(&[&op("outer", 10, r#","dur":8"#), &op("open", 12, ""), &op("last", 30, ""), call, kernel]);
    let spans: Vec<(&str, i64)> = trace.ops.iter().map(|op| (&*op.name, op.call.end_ns)).collect();
    assert_eq!(spans, [("outer", 18_000), ("open", 18_000), ("last", 50_000)]);
    assert_eq!((trace.kernels[0].op, lost(&trace, "ops without a length")), (Some(1), 2));
}

#[test]
fn the_rank_is_that_of_the_process_that_launches() {
    let op = |process: u32| {
        format!(
            r#"{{"ph":"X","cat":"cpu_op","name":"op","pid":{process},"tid":1,"ts":0,"dur":50,"args":{{}}}}"#
        )
    };
    let call = |process: u32, number: u32| {
        format!(
            r#"{{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":{process},"tid":1,"ts":1,"dur":1,"args":{{"correlation":{number}}}}}"#
        )
    };
    let ranks = |events: &[String]| {
        let head = r#""distributedInfo": {"rank": 3, "world_size": 8}"#;
        let text = format!(r#"{{{head}, "traceEvents": [{}]}}"#, events.join(","));
        let trace = read(&mut JsonStream::new(text.as_bytes(), Path::new("trace.json"))).unwrap();
        trace.processes.iter().map(|process| process.rank).collect::<Vec<_>>()
    };
    assert_eq!(ranks(&[op(11), op(10), call(10, 1)]), [None, Some(3)]);
    assert_eq!(ranks(&[op(11), call(11, 1), call(10, 2)]), [None, None]);
}
