//! `stallmap diff` of generated traces: more work, larger shapes, speed and other kernels, and noise from steps.

use serde_json::{Value, json};

use crate::command::CommandFolder;

/// Calls of one op, each with one kernel.
#[derive(Clone)]
struct OpCalls {
    /// The op. Without one, the kernel is launched outside of ops.
    op: &'static str,
    dims: Value,
    kernel: &'static str,
    grid: u32,
    /// The length of each kernel, microseconds.
    lengths: Vec<f64>,
}

impl OpCalls {
    fn new(op: &'static str, dims: Value, kernel: &'static str, count: usize, length: f64) -> Self {
        Self { op, dims, kernel, grid: 4, lengths: std::iter::repeat_n(length, count).collect() }
    }
}

/// A trace as PyTorch's profiler writes it. Each of `steps` has its calls in an annotation.
fn trace(steps: &[Vec<OpCalls>]) -> String {
    let event = |cat: &str, name: &str, tid: u32, ts: f64, dur: f64, args: Value| {
        let pid = if tid == 7 { 0 } else { 30 };
        json!({ "ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args })
    };
    let (mut now, mut correlation, mut events) = (100.0, 0, Vec::new());
    for (number, step) in steps.iter().enumerate() {
        let begin = now;
        for calls in step {
            for &length in &calls.lengths {
                correlation += 1;
                if !calls.op.is_empty() {
                    let args = json!({ "Input Dims": calls.dims, "Input type": ["float", "float"], "External id": correlation });
                    events.push(event("cpu_op", calls.op, 30, now, 8.0, args));
                }
                let call = json!({ "correlation": correlation });
                events.push(event("cuda_runtime", "cudaLaunchKernel", 30, now + 2.0, 3.0, call));
                let kernel = json!({ "correlation": correlation, "device": 0, "stream": 7,
                    "grid": [calls.grid, 1, 1], "block": [64, 1, 1] });
                events.push(event("kernel", calls.kernel, 7, now + 10.0, length, kernel));
                now += 20.0 + length;
            }
        }
        if steps.len() > 1 {
            let name = format!("ProfilerStep#{number}");
            events.push(event("user_annotation", &name, 30, begin - 1.0, now - begin, json!({})));
        }
    }
    json!({ "schemaVersion": 1, "deviceProperties": [], "traceEvents": events }).to_string()
}

/// A folder with both traces as captures.
fn pair(a: &[Vec<OpCalls>], b: &[Vec<OpCalls>]) -> CommandFolder {
    let place = CommandFolder::new();
    for (name, steps) in [("a", a), ("b", b)] {
        place.file(&format!("{name}.json"), trace(steps));
        place.run(&["import", &format!("{name}.json"), "-o", &format!("{name}.stallmap")]).expect_ok();
    }
    place
}

fn whole(place: &CommandFolder, more: &[&str]) -> String {
    let options = ["diff", "a.stallmap", "b.stallmap", "--per", "total", "--phase", "all"];
    let ran = place.run(&[&options[..], more].concat());
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    ran.stdout.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn square(rows: u32) -> Value {
    json!([[rows, 64], [64, 64]])
}

#[test]
fn more_calls_and_larger_shapes_are_more_work() {
    let a = [vec![
        OpCalls::new("aten::mm", square(64), "gemm", 10, 10.0),
        OpCalls::new("aten::add", json!([[1000], [1000]]), "add", 5, 20.0),
    ]];
    // Two calls more of 10 us each, and five of twice the elements in 2.2 times the time.
    let b = [vec![
        OpCalls::new("aten::mm", square(64), "gemm", 12, 10.0),
        OpCalls::new("aten::add", json!([[2000], [2000]]), "add", 5, 44.0),
    ]];
    let text = whole(&pair(&a, &b), &[]);
    assert!(text.starts_with("b does more work than a: +70.0 % time"), "{text}");
    let parts = "By parts: +10.0 % by more calls, +50.0 % by larger shapes, +10.0 % by slower work.";
    assert!(text.contains(parts), "{text}");
    // Twice the rows are twice the products, though not twice the elements.
    let b = [vec![
        OpCalls::new("aten::mm", square(128), "gemm", 10, 20.0),
        OpCalls::new("aten::add", json!([[1000], [1000]]), "add", 5, 20.0),
    ]];
    let text = whole(&pair(&a, &b), &[]);
    assert!(text.contains("By parts: +50.0 % by larger shapes."), "{text}");
}

#[test]
fn other_kernels_of_the_same_ops_are_faster_or_slower() {
    let mm = |kernel, length| OpCalls::new("aten::mm", square(64), kernel, 10, length);
    let a = [vec![mm("sm80_gemm", 10.0), OpCalls::new("", json!([]), "only_before", 2, 5.0)]];
    // Two kernels for one call of another library are still one call.
    let b = [vec![mm("sm90_gemm", 6.0), OpCalls::new("", json!([]), "only_after", 1, 15.0)]];
    let place = pair(&a, &b);
    let text = whole(&place, &[]);
    let parts = "b is faster than a: -31.8 % time";
    assert!(text.starts_with(parts), "{text}");
    assert!(
        text.contains("By parts: -36.4 % by faster work, +4.5 % by kernels without a counterpart."),
        "{text}"
    );
    for row in ["100 → 60 µs -40.0 % aten::mm", "gone only_before", "new only_after"] {
        assert!(text.contains(row), "{row}: {text}");
    }
    let table = place.run(&[
        "diff",
        "a.stallmap",
        "b.stallmap",
        "--per",
        "total",
        "--phase",
        "all",
        "--by",
        "aligned",
        "--all",
        "--json",
    ]);
    let answer: Value = serde_json::from_str(&table.stdout).unwrap();
    let rows = answer["sections"][2]["rows"].as_array().unwrap();
    let sum = |column: &str| rows.iter().map(|row| row[column].as_f64().unwrap()).sum::<f64>();
    assert_eq!((rows.len(), sum("base_value"), sum("value")), (3, 110_000.0, 75_000.0), "{rows:?}");
}

#[test]
fn the_spread_of_steps_decides_what_is_noise() {
    let steps = |mean: f64, spread: f64| -> Vec<Vec<OpCalls>> {
        let length = |step: u32| mean * (1.0 + spread * f64::from(step % 3) - spread);
        (0..12).map(|step| vec![OpCalls::new("aten::mm", square(64), "gemm", 4, length(step))]).collect()
    };
    let say = |place: &CommandFolder| {
        let ran = place.run(&["diff", "a.stallmap", "b.stallmap"]);
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        assert!(ran.stderr.contains("--phase all"), "{}", ran.stderr);
        ran.stdout.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let wide = say(&pair(&steps(100.0, 0.2), &steps(106.0, 0.2)));
    assert!(wide.starts_with("b is as fast as a within noise: +6.0 % time"), "{wide}");
    assert!(wide.contains("400 → 424 µs a step.") && wide.contains("(within noise), GPU busy"), "{wide}");
    let narrow = say(&pair(&steps(100.0, 0.01), &steps(106.0, 0.01)));
    assert!(narrow.starts_with("b is slower than a: +6.0 % time"), "{narrow}");
    assert!(narrow.contains("A step lasts 480 µs → 504 µs (+5.0 %), GPU busy"), "{narrow}");
}

#[test]
fn totals_of_unequal_jobs_name_their_steps() {
    let steps = |count: usize| vec![vec![OpCalls::new("aten::mm", square(64), "gemm", 4, 100.0)]; count];
    let place = pair(&steps(10), &steps(4));
    let smaller = "b is a smaller job than a (4 steps instead of 10): -60.0 % time";
    let text = whole(&place, &[]);
    assert!(text.starts_with(smaller) && text.contains("`--per step` compares a step of each."), "{text}");
    let steps = place.run(&["diff", "a.stallmap", "b.stallmap", "--per", "step"]);
    assert!(steps.stdout.starts_with("b takes as long as a: 400 µs a step."), "{}", steps.stdout);
    let launches = whole(&place, &["--metric", "launches"]);
    assert!(launches.starts_with("b has fewer launches than a (4 steps instead of 10)"), "{launches}");
}

#[test]
fn captures_that_share_no_time_compare_by_launches() {
    let calls = vec![OpCalls::new("aten::mm", square(64), "gemm", 3, 10.0)];
    let place = pair(std::slice::from_ref(&calls), std::slice::from_ref(&calls));
    let testdata = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/transformer_step.stallmap");
    let ran = place.run(&["diff", "a.stallmap", testdata, "-n", "99"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(ran.stdout.starts_with("b has more launches than a"), "{}", ran.stdout);
    assert!(ran.stdout.contains("aten::mm"), "{}", ran.stdout);
}
