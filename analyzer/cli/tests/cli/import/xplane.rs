//! A trace of XLA's profiler, written as JAX writes it: planes of a GPU, of the host, and of the compiled module.

use super::base::import;
use super::packets::ProtoMessage;
use super::{number, rows};
use crate::command::CommandFolder;

/// Begin of the profile, nanoseconds since the Unix epoch.
const START_NS: u64 = 1_795_865_630_717_919_801;
/// Names of statistics, numbered from 1.
const STATS: [&str; 13] = [
    "profile_start_time",
    "process_id",
    "correlation_id",
    "kernel_details",
    "memcpy_details",
    "hlo_op",
    "hlo_module",
    "program_id",
    "cuda_graph_id",
    "step_num",
    "gpu_device_name",
    "hlo_proto",
    "allocator_name",
];
/// Steps of the program.
const STEPS: u64 = 3;
/// Picoseconds of a step, of the gemm and of the fusion in it.
const STEP_PS: u64 = 1_000_000_000;
const GEMM_PS: u64 = 200_000_600;
const FUSION_PS: u64 = 50_000_500;

fn empty() -> ProtoMessage {
    ProtoMessage::default()
}

/// A statistic by name, with its number or its text.
fn stat(name: &str) -> ProtoMessage {
    let place = STATS.iter().position(|known| *known == name).unwrap();
    empty().uint(1, place as u64 + 1)
}

/// A plane: its name, lines, names of events, and statistics.
fn plane(
    name: &str,
    lines: &[ProtoMessage],
    events: &[ProtoMessage],
    stats: &[ProtoMessage],
) -> ProtoMessage {
    let mut plane = empty().text(2, name);
    plane = lines.iter().fold(plane, |plane, line| plane.message(3, line));
    for (number, metadata) in (1..).zip(events) {
        plane = plane.message(4, &empty().uint(1, number).message(2, metadata));
    }
    for (number, name) in (1..).zip(STATS) {
        plane = plane.message(5, &empty().uint(1, number).message(2, &empty().uint(1, number).text(2, name)));
    }
    stats.iter().fold(plane, |plane, stat| plane.message(6, stat))
}

fn named(name: &str) -> ProtoMessage {
    empty().text(2, name)
}

/// An event: metadata, begin and length in picoseconds.
fn event(metadata: u64, begin: u64, length: u64) -> ProtoMessage {
    empty().uint(1, metadata).uint(2, begin).uint(3, length)
}

/// The module: a fusion of a layer, traced at a line, and a custom call in backward.
fn module() -> ProtoMessage {
    let operation = |path: &str| empty().text(2, path).text(3, "/srv/job/train.py").uint(4, 17);
    let instruction = |number: u64, name: &str, opcode: &str, path: &str| {
        empty().text(1, name).text(2, opcode).message(7, &operation(path)).uint(35, number)
    };
    let computation = empty()
        .text(1, "main")
        .message(2, &instruction(1, "loop_add_fusion.2", "fusion", "jit(step)/jvp(layer0)/mlp/add"))
        .message(
            2,
            &instruction(2, "custom-call.1", "custom-call", "jit(step)/transpose(jvp(layer0))/dot_general"),
        )
        .uint(5, 1)
        .uint(6, 2);
    empty().message(1, &empty().text(1, "jit_step").message(3, &computation).uint(6, 1))
}

/// A trace. In each step the gemm is launched by itself, the fusion by a command buffer, then a number is copied.
fn trace() -> Vec<u8> {
    let (mut stream, mut thread) = (empty().uint(1, 7).text(2, "Stream #7(Compute)").uint(3, 1_000), empty());
    thread = thread.uint(1, 99).text(2, "python3").uint(3, 1_000);
    let program = |event: ProtoMessage, op: &str| {
        event
            .message(4, &stat("hlo_op").text(5, op))
            .message(4, &stat("hlo_module").text(5, "jit_step"))
            .message(4, &stat("program_id").uint(3, 41))
    };
    let details = "regs:32 static_shared:16 dynamic_shared:64 grid:8,2,1 block:128,1,1 occ_pct:100";
    for step in 0..STEPS {
        let begin = step * STEP_PS;
        let correlation = |number: u64| stat("correlation_id").uint(3, 10 * step + number);
        let gemm = event(1, begin + 20_000_000, GEMM_PS).message(4, &correlation(1));
        stream = stream
            .message(4, &program(gemm.message(4, &stat("kernel_details").text(5, details)), "custom-call.1"));
        let fusion = event(2, begin + 300_000_000, FUSION_PS)
            .message(4, &correlation(2))
            .message(4, &stat("cuda_graph_id").uint(3, 5));
        stream = stream.message(4, &program(fusion, "command_buffer_1"));
        let copy = event(3, begin + 400_000_000, 2_000_000).message(4, &correlation(3));
        let copy = copy.message(
            4,
            &stat("memcpy_details").text(5, "kind_src:device kind_dst:pinned size:4 dest:0 async:1"),
        );
        stream = stream.message(4, &copy);
        thread = thread
            .message(4, &event(1, begin, STEP_PS - 1_000_000).message(4, &stat("step_num").uint(4, step)))
            .message(4, &event(2, begin + 10_000_000, 3_000_000).message(4, &correlation(1)))
            .message(4, &event(3, begin + 15_000_000, 3_000_000).message(4, &correlation(2)))
            .message(4, &event(4, begin + 19_000_000, 3_000_000).message(4, &correlation(3)))
            .message(4, &event(5, begin + 30_000_000, 380_000_000));
    }
    let device = plane(
        "/device:GPU:0",
        &[stream],
        &[named("cublas_gemm"), named("loop_add_fusion_2"), named("MemcpyD2H")],
        &[stat("gpu_device_name").text(5, "NVIDIA H200"), stat("process_id").uint(3, 77)],
    );
    let calls = [
        named("train"),
        named("cublas_gemm"),
        named("cuGraphLaunch"),
        named("MemcpyD2H"),
        named("cuStreamSynchronize"),
    ];
    let host = plane("/host:CPU", &[thread], &calls, &[]);
    let program = named("jit_step(41)").message(5, &stat("hlo_proto").bytes(6, &module().0));
    let metadata = plane("/host:metadata", &[], &[program], &[]);
    let environment = plane("Task Environment", &[], &[], &[stat("profile_start_time").uint(3, START_NS)]);
    [metadata, device, host, environment].iter().fold(empty(), |space, plane| space.message(1, plane)).0
}

#[test]
fn kernels_have_times_calls_instructions_and_steps() {
    let place = CommandFolder::new();
    let messages = import(&place, trace(), "x.stallmap");
    assert!(messages.contains("read from xprof: 6 kernels, 6 copies, fills and waits, 9 ops"), "{messages}");
    let one = |sql: &str| number(&place, "x.stallmap", sql);
    // Picoseconds are rounded to nanoseconds, half to even.
    let total = STEPS * (GEMM_PS.div_ceil(1000) + FUSION_PS / 1000);
    let sum = "SELECT CAST(sum(end_ns - begin_ns) AS BIGINT) AS n FROM gpu_activity WHERE kind = 'kernel'";
    assert_eq!(one(sum), total);
    assert_eq!(
        one("SELECT CAST(min(begin_ns) AS BIGINT) AS n FROM gpu_activity WHERE kind = 'kernel'"),
        START_NS + 21_000
    );
    let kernels = "SELECT o.name, o.module_path AS layer, o.phase, c.line, t.queue_ns AS queue, l.grid_y AS grid, l.register_count AS regs \
         FROM launch l JOIN op o ON o.op_id = l.op_id JOIN launch_context c ON c.kernel_id = l.kernel_id \
         JOIN launch_timeline t ON t.kernel_id = l.kernel_id ORDER BY t.begin_ns LIMIT 2";
    let found = rows(&place, "x.stallmap", kernels);
    let (gemm, fusion) = (&found[0], &found[1]);
    assert_eq!((&gemm["name"], &gemm["phase"]), (&"dot_general".into(), &"backward".into()), "{gemm}");
    assert_eq!([&gemm["grid"], &gemm["regs"], &gemm["queue"]], [2, 32, 10_000], "{gemm}");
    // In a command buffer, the kernel's name leads to the instruction.
    assert_eq!((&fusion["name"], &fusion["layer"]), (&"add".into(), &"layer0.mlp".into()), "{fusion}");
    assert_eq!(fusion["phase"], "forward");
    assert!(found.iter().all(|row| row["line"].as_str().is_some_and(|line| line.starts_with("train.py:17"))));
    assert_eq!(
        one(
            "SELECT count(*) AS n FROM (SELECT DISTINCT program_step FROM launch_phase WHERE found_by = 'range')"
        ),
        STEPS
    );
    let copies = "SELECT count(*) AS n FROM gpu_activity WHERE copy_kind = 'device_to_host' AND size_bytes = 4 AND call_end_ns > 0";
    assert_eq!(one(copies), STEPS);
    assert_eq!(one("SELECT count(*) AS n FROM gpu_activity WHERE synchronization = 'stream'"), STEPS);
    assert_eq!(one("SELECT count(*) AS n FROM run WHERE process_id = 77"), 1);
}

#[test]
fn a_damaged_file_has_what_stands_before_the_damage() {
    let place = CommandFolder::new();
    let whole = trace();
    // In the host's plane. Names stand behind events: those of this plane are lost.
    let at = whole.windows(9).position(|part| part == b"/host:CPU").unwrap() + 100;
    let messages = import(&place, &whole[..at], "cut.stallmap");
    assert!(messages.contains("parts of the file that are damaged"), "{messages}");
    assert!(messages.contains(&format!("byte {at}: it ends in a message")), "{messages}");
    assert!(messages.contains("events without a name"), "{messages}");
    let one = |sql: &str| number(&place, "cut.stallmap", sql);
    assert_eq!(one("SELECT count(*) AS n FROM launch"), 2 * STEPS);
    assert_eq!(one("SELECT count(*) AS n FROM op"), 0);
    place.file("short.xplane.pb", &whole[..40]);
    let ran = place.run(&["import", "short.xplane.pb", "-o", "short.stallmap"]);
    assert!(
        ran.stderr.contains("without work of a GPU and without events of the host: byte 40"),
        "{}",
        ran.stderr
    );
}
