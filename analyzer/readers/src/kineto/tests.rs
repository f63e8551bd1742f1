//! Traces as a whole.

use std::path::Path;

use super::*;

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
        format!(r#"{{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":20,"dur":3,"args":{{{arguments}}}}}"#)
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
