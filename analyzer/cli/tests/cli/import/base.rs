//! A small trace of PyTorch's profiler, which tests of damaged and unusual files change.

use std::fs;

use super::number;
use crate::command::{CommandFolder, CommandRun};

/// The sum of the kernels of [`events`].
pub(super) const KERNEL_NS: u64 = 11_500 + 7_250 + 2_500;

/// Three ops, each with a launch call and a kernel, of a process and a GPU. One event per row.
pub(super) fn events(host: &str, gpu: &str, begin_us: u64) -> Vec<String> {
    let event = |cat: &str, name: &str, lane: &str, ts: u64, dur: &str, args: &str| {
        format!(
            r#"{{"ph":"X","cat":"{cat}","name":"{name}",{lane},"ts":{ts},"dur":{dur},"args":{{{args}}}}}"#
        )
    };
    let (host, gpu) = (format!(r#""pid":{host},"tid":30"#), format!(r#""pid":{gpu},"tid":7"#));
    let ops = [("aten::mm", "gemm", "11.500"), ("aten::relu", "relu", "7.250"), ("aten::mm", "gemm", "2.5")];
    let group = |(place, (op, kernel, length)): (u64, (&str, &str, &str))| {
        let (ts, correlation) = (begin_us + 100 * place, 40 + place);
        let arguments =
            format!(r#""device":0,"stream":7,"correlation":{correlation},"grid":[2,1,1],"block":[64,1,1]"#);
        [
            event("cpu_op", op, &host, ts, "60", ""),
            event(
                "cuda_runtime",
                "cudaLaunchKernel",
                &host,
                ts + 5,
                "3",
                &format!(r#""correlation":{correlation}"#),
            ),
            event("kernel", kernel, &gpu, ts + 20, length, &arguments),
        ]
    };
    (0..).zip(ops).flat_map(group).collect()
}

/// A document with events.
pub(super) fn document(events: &[String]) -> String {
    format!(r#"{{"schemaVersion":1,"traceEvents":[{}],"traceName":"t.json"}}"#, events.join(",\n"))
}

/// The document with the three kernels.
pub(super) fn trace() -> String {
    document(&events("30", "0", 1000))
}

/// The sum of the measured times of a capture's kernels.
pub(super) fn kernel_ns(place: &CommandFolder, capture: &str) -> u64 {
    let sum = "SELECT CAST(coalesce(sum(end_ns - begin_ns), 0) AS BIGINT) AS n FROM gpu_activity WHERE kind = 'kernel'";
    number(place, capture, sum)
}

/// A file that was cut is imported up to there, or is an error.
pub(super) fn expect_partial(place: &CommandFolder, ran: &CommandRun, length: usize) {
    let is_partial = ran.code == Some(0) && ran.stderr.contains("the rest of the file, which is not JSON");
    assert!(is_partial || ran.code == Some(5), "{length}: {}", ran.stderr);
    assert!(!ran.stderr.contains("panicked"), "{length}: {}", ran.stderr);
    if is_partial {
        place.run(&["check", "x.stallmap"]).expect_ok();
        fs::remove_file(place.path("x.stallmap")).unwrap();
    }
}

/// Imports a content, and returns its messages.
pub(super) fn import(place: &CommandFolder, content: impl AsRef<[u8]>, capture: &str) -> String {
    place.file("trace", content);
    let ran = place.run(&["import", "trace", "-o", capture]);
    ran.expect_ok();
    place.run(&["check", capture]).expect_ok();
    ran.stderr.clone()
}
