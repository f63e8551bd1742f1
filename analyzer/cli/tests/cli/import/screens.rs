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
