//! First screens of small traces: what they wait for, what drives them, and which rank they are.

use std::fmt::Write as _;
use std::fs;

use super::rows;
use crate::command::CommandFolder;

/// A trace of one thread and one GPU, microseconds.
struct GeneratedTrace {
    events: Vec<String>,
    host_us: u64,
    gpu_us: u64,
}

impl GeneratedTrace {
    fn new() -> Self {
        Self { events: Vec::new(), host_us: 1_000, gpu_us: 1_000 }
    }

    /// On thread 1, or, for work of the GPU, on stream 7.
    fn event(&mut self, cat: &str, name: &str, begin: u64, length: u64, args: &str) {
        let thread = if args.contains("\"stream\"") { 7 } else { 1 };
        self.events.push(format!(
            r#"{{"ph":"X","cat":"{cat}","name":"{name}","pid":1,"tid":{thread},"ts":{begin},"dur":{length},"args":{{{args}}}}}"#
        ));
    }

    /// A call of 5 us, and its work on the GPU. Returns the end of the work.
    fn work(&mut self, call: &str, cat: &str, name: &str, length: u64, args: &str) -> u64 {
        let number = self.events.len();
        self.event("cuda_runtime", call, self.host_us, 5, &format!(r#""correlation":{number}"#));
        let begin = self.gpu_us.max(self.host_us + 5);
        let args = format!(r#""correlation":{number},"device":0,"stream":7,{args}"#);
        self.event(cat, name, begin, length, &args);
        self.host_us += 6;
        self.gpu_us = begin + length;
        self.gpu_us
    }

    fn kernel(&mut self, name: &str, length: u64) {
        self.work("cudaLaunchKernel", "kernel", name, length, r#""grid":[512,1,1],"block":[256,1,1]"#);
    }

    /// A copy that the host waits for.
    fn copy(&mut self, direction: &str, length: u64, bytes: u64) {
        let name = format!("Memcpy {direction} (Pageable)");
        let end = self.work("cudaMemcpyAsync", "gpu_memcpy", &name, length, &format!(r#""bytes":{bytes}"#));
        self.event("cuda_runtime", "cudaStreamSynchronize", self.host_us, end - self.host_us + 1, "");
        self.host_us = end + 2;
    }

    /// The first screen.
    fn screen(&self, place: &CommandFolder, name: &str, more: &str) -> String {
        let mut text = String::new();
        write!(text, r#"{{"schemaVersion":1,{more}"traceEvents":[{}]}}"#, self.events.join(",\n")).unwrap();
        fs::write(place.path(&format!("{name}.json")), text).unwrap();
        let capture = format!("{name}.stallmap");
        place.run(&["import", &format!("{name}.json"), "-o", &capture]).expect_ok();
        place.run(&[&capture]).expect_ok().stdout.clone()
    }
}

#[test]
fn a_loader_that_is_late_is_no_wait_for_the_gpu() {
    let place = CommandFolder::new();
    let mut trace = GeneratedTrace::new();
    for _ in 0..6 {
        // The loader.
        trace.host_us += 20_000;
        trace.copy("HtoD", 300, 4 << 20);
        (0..4).for_each(|_| trace.kernel("gemm", 500));
        // `.item()`.
        trace.copy("DtoH", 2, 4);
    }
    let text = trace.screen(&place, "loader", "");
    assert!(
        text.contains("idle before late copies to the GPU") && text.contains("→ Load data ahead"),
        "{text}"
    );
    assert!(!text.contains("after the host waited"), "{text}");
}

#[test]
fn a_wait_for_a_number_is_one_before_small_copies_and_launches() {
    let place = CommandFolder::new();
    let mut trace = GeneratedTrace::new();
    for _ in 0..6 {
        (0..4).for_each(|_| trace.kernel("gemm", 100));
        trace.copy("DtoH", 2, 4);
        trace.host_us += 700;
        trace.copy("HtoD", 2, 8);
    }
    let text = trace.screen(&place, "item", "");
    assert!(
        text.contains("idle after the host waited") && text.contains("→ Wait less: no .item()"),
        "{text}"
    );
}

/// Steps of 10 ms, each in a range of the profiler: nothing for 2 ms, then kernels for 7.
fn ranged_steps(count: u64) -> GeneratedTrace {
    let mut trace = GeneratedTrace::new();
    for step in 0..count {
        let begin = 1_000 + 10_000 * step;
        trace.host_us = begin;
        trace.event("user_annotation", &format!("ProfilerStep#{step}"), begin, 10_000, "");
        trace.host_us += 2_000;
        (0..7).for_each(|_| trace.kernel("gemm", 1_000));
    }
    trace
}

#[test]
fn a_step_is_as_long_as_its_range() {
    let place = CommandFolder::new();
    for count in 1..4 {
        let text = ranged_steps(count).screen(&place, &format!("steps{count}"), "");
        assert!(text.contains("A step takes 10 ms") && text.contains("70 % kernels"), "{text}");
        assert!(!text.contains(", up to "), "{text}");
    }
    // PyTorch 1.8 has ranges as ops.
    let mut old = ranged_steps(4);
    old.events.iter_mut().for_each(|event| *event = event.replace("user_annotation", "Operator"));
    let text = old.screen(&place, "old", "");
    assert!(text.contains(" · 4 steps · ") && text.contains("Steps are ranges of the program."), "{text}");
}

#[test]
fn work_of_a_process_apart_is_no_step() {
    let place = CommandFolder::new();
    let mut trace = ranged_steps(6);
    for (number, begin) in [(9001, 1_500), (9002, 121_000)] {
        for (cat, thread, length, more) in [
            ("cuda_runtime", r#""pid":2,"tid":2"#, 5, ""),
            ("kernel", r#""pid":0,"tid":7"#, 30, r#","device":0,"stream":9,"grid":[1,1,1],"block":[32,1,1]"#),
        ] {
            let name = if cat == "kernel" { "helper" } else { "cudaLaunchKernel" };
            trace.events.push(format!(
                r#"{{"ph":"X","cat":"{cat}","name":"{name}",{thread},"ts":{begin},"dur":{length},"args":{{"correlation":{number}{more}}}}}"#
            ));
        }
    }
    let text = trace.screen(&place, "apart", "");
    assert!(text.contains("A step takes 10 ms") && text.contains("70 % kernels"), "{text}");
    assert!(!text.contains("before helper") && !text.contains("% of 1"), "{text}");
    let sql = "SELECT program_phase AS phase, count(*) AS n FROM launch_phase GROUP BY 1 ORDER BY 1";
    let phases: Vec<(String, u64)> = rows(&place, "apart.stallmap", sql)
        .iter()
        .map(|row| (row["phase"].as_str().unwrap().to_owned(), row["n"].as_u64().unwrap()))
        .collect();
    assert_eq!(phases, [("apart".to_owned(), 2), ("steady".to_owned(), 42)]);
}

#[test]
fn code_that_fills_a_gap_is_named() {
    let place = CommandFolder::new();
    for (cat, name, named, advice) in [
        (
            "user_annotation",
            "enumerate(DataLoader)#Iter.__next__",
            "enumerate(DataLoader)",
            "→ Load data ahead",
        ),
        (
            "python_function",
            "a/train.py(61): log_metrics",
            "train.py:61 log_metrics",
            "→ Do this work less often",
        ),
    ] {
        let mut trace = GeneratedTrace::new();
        for _ in 0..6 {
            trace.event(cat, name, trace.host_us + 10, 5_000, "");
            trace.host_us += 5_100;
            trace.event("cpu_op", "aten::mm", trace.host_us, 40, "");
            (0..4).for_each(|_| trace.kernel("gemm", 500));
            trace.copy("DtoH", 2, 4);
        }
        let text = trace.screen(&place, cat, "");
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains(&format!("the host is in {named}")) && text.contains(advice), "{text}");
    }
}

#[test]
fn the_end_of_a_cut_file_is_the_first_loss() {
    let place = CommandFolder::new();
    let mut trace = ranged_steps(4);
    trace.event("overhead", "Buffer flush", 2_000, 5, "");
    trace.screen(&place, "whole", "");
    let text = fs::read_to_string(place.path("whole.json")).unwrap();
    fs::write(place.path("cut.json"), &text[..text.len() - 200]).unwrap();
    place.run(&["import", "cut.json", "-o", "cut.stallmap"]).expect_ok();
    let loss = |capture: &str| {
        let text = place.run(&[capture]).expect_ok().stdout.clone();
        text.lines().nth(1).unwrap().to_owned()
    };
    assert!(loss("cut.stallmap").starts_with("! 1 source: the rest of the file"), "{}", loss("cut.stallmap"));
    // Nothing is lost of what is not read on purpose.
    assert!(loss("whole.stallmap").starts_with("nothing lost"), "{}", loss("whole.stallmap"));
}

#[test]
fn a_phase_without_launches_says_so() {
    let place = CommandFolder::new();
    ranged_steps(4).screen(&place, "phases", "");
    let screen = |phase: &str| place.run(&["phases.stallmap", "--phase", phase]).expect_ok().stdout.clone();
    for phase in ["setup", "end"] {
        let text = screen(phase);
        assert!(text.contains(&format!("Phase {phase} has no launches of kernels.")), "{text}");
        assert!(!text.contains('%') || !text.contains("gemm"), "{text}");
    }
    assert!(!screen("all").contains("Not counted"), "{}", screen("all"));
}

#[test]
fn a_wait_saves_no_more_than_the_busiest_gpu_leaves() {
    let place = CommandFolder::new();
    let mut trace = GeneratedTrace::new();
    for step in 0..6 {
        let begin = 1_000 + 10_000 * step;
        trace.event("user_annotation", &format!("ProfilerStep#{step}"), begin, 10_000, "");
        for (device, length) in [(0, 8_000), (1, 2_000)] {
            let number = 10 * step + device;
            trace.event(
                "cuda_runtime",
                "cudaLaunchKernel",
                begin + 20 + device,
                5,
                &format!(r#""correlation":{number}"#),
            );
            let args = format!(
                r#""correlation":{number},"device":{device},"stream":7,"grid":[512,1,1],"block":[256,1,1]"#
            );
            trace.event("kernel", &format!("gemm{device}"), begin + 40, length, &args);
        }
    }
    trace.screen(&place, "devices", "");
    let sql = "SELECT CAST(max(saving_high_ns) AS BIGINT) AS n FROM finding WHERE finding = 'cpu_bound'";
    let most = rows(&place, "devices.stallmap", sql)[0]["n"].as_u64().unwrap();
    assert!((1_500_000..=2_100_000).contains(&most), "{most}");
}

#[test]
fn steps_of_copies_have_bars_of_copies() {
    let place = CommandFolder::new();
    let mut trace = GeneratedTrace::new();
    for _ in 0..10 {
        trace.copy("HtoD", 5_000, 64 << 20);
        trace.kernel("score", 100);
        trace.copy("DtoH", 30, 4096);
    }
    let text = trace.screen(&place, "copies", r#""distributedInfo":{"rank":3,"world_size":8},"#);
    assert!(text.contains("· rank 3 of 8 ·"), "{text}");
    let bar = |name: &str| text.lines().find(|line| line.ends_with(name)).unwrap_or_default().to_owned();
    assert!(bar("  copies host to device").starts_with(" 97 %"), "{text}");
    assert!(bar("  score").starts_with("  2 %"), "{text}");
}

#[test]
fn a_line_that_drives_the_program_gives_way_to_its_kernels() {
    let place = CommandFolder::new();
    let mut trace = GeneratedTrace::new();
    trace.event("python_function", "cuda_graph.py(26): run", 900, 90_000, "");
    for _ in 0..6 {
        for kernel in ["attention", "gemm", "norm", "gate", "gather"] {
            trace.kernel(kernel, 100);
        }
    }
    let text = trace.screen(&place, "driver", "");
    assert!(text.contains("  attention  cuda_graph.py:26"), "{text}");
    let lines = rows(&place, "driver.stallmap", "SELECT DISTINCT line FROM launch_context");
    assert_eq!(lines[0]["line"], "cuda_graph.py:26 run");
}
