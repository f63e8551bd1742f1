//! A trace of PyTorch's profiler as packets, written from the events of its JSON as PyTorch 2.12 writes them.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{KERNELS, TraceTimes, kineto, number, rows};
use crate::command::CommandFolder;

/// A message of protocol buffers.
#[derive(Clone, Default)]
pub(super) struct ProtoMessage(pub(super) Vec<u8>);

impl ProtoMessage {
    fn varint(&mut self, mut value: u64) {
        while value > 0x7f {
            self.0.push(value.to_le_bytes()[0] | 0x80);
            value >>= 7;
        }
        self.0.push(value.to_le_bytes()[0]);
    }

    pub(super) fn uint(mut self, field: u64, value: u64) -> Self {
        self.varint(field << 3);
        self.varint(value);
        self
    }

    pub(super) fn bytes(mut self, field: u64, value: &[u8]) -> Self {
        self.varint(field << 3 | 2);
        self.varint(value.len() as u64);
        self.0.extend(value);
        self
    }

    pub(super) fn text(self, field: u64, value: &str) -> Self {
        self.bytes(field, value.as_bytes())
    }

    pub(super) fn message(self, field: u64, value: &Self) -> Self {
        self.bytes(field, &value.0)
    }
}

/// Names by number, in the order in which they were seen.
#[derive(Default)]
struct InternedNames(Vec<String>);

impl InternedNames {
    fn number(&mut self, name: &str) -> u64 {
        let found = self.0.iter().position(|other| other == name);
        let place = found.unwrap_or_else(|| {
            self.0.push(name.to_owned());
            self.0.len() - 1
        });
        place as u64 + 1
    }

    fn messages(&self, field: u64, mut message: ProtoMessage) -> ProtoMessage {
        for (number, name) in (1..).zip(&self.0) {
            message = message.message(field, &ProtoMessage::default().uint(1, number).text(2, name));
        }
        message
    }
}

/// The encoder of one trace.
struct PacketEncoder {
    base_ns: u64,
    names: InternedNames,
    categories: InternedNames,
    tracks: BTreeMap<(i64, i64), u64>,
}

impl PacketEncoder {
    fn time(&self, event: &Value) -> (u64, u64) {
        // Microseconds with up to three decimals.
        let ns = |key: &str| {
            let text = event[key].to_string();
            let (whole, part) = text.split_once('.').unwrap_or((&text, "0"));
            whole.parse::<u64>().unwrap() * 1000 + format!("{part:0<3}").parse::<u64>().unwrap()
        };
        (self.base_ns + ns("ts"), ns("dur"))
    }

    fn packet(time: u64) -> ProtoMessage {
        ProtoMessage::default().uint(8, time).uint(10, 1)
    }

    fn track(&mut self, event: &Value) -> u64 {
        let next = self.tracks.len() as u64 + 1;
        let thread = (event["pid"].as_i64().unwrap(), event["tid"].as_i64().unwrap());
        *self.tracks.entry(thread).or_insert(next)
    }

    /// All begins of a group, and then all its ends.
    fn group(&mut self, events: &[&Value]) -> Vec<ProtoMessage> {
        let mut packets = Vec::new();
        let mut ends = Vec::new();
        for event in events {
            let (begin, length) = self.time(event);
            let track = self.track(event);
            let mut slice = ProtoMessage::default().uint(9, 1).uint(11, track);
            slice = slice.uint(10, self.names.number(event["name"].as_str().unwrap()));
            slice = slice.uint(3, self.categories.number(event["cat"].as_str().unwrap()));
            for (name, value) in event["args"].as_object().unwrap() {
                let argument = ProtoMessage::default().text(10, name);
                let argument = match value {
                    Value::Number(value) => argument.uint(4, value.as_i64().unwrap().cast_unsigned()),
                    Value::String(value) => argument.text(6, value),
                    _ => argument.text(6, "null"),
                };
                slice = slice.message(4, &argument);
            }
            packets.push(Self::packet(begin).uint(13, 2).message(11, &slice));
            let end = ProtoMessage::default().uint(9, 2).uint(11, track);
            ends.push(Self::packet(begin + length).message(11, &end));
        }
        packets.extend(ends);
        packets
    }

    /// Work of the GPU: texts in place of numbers, and no zeros.
    fn stage(&mut self, id: u64, event: &Value) -> ProtoMessage {
        let (begin, length) = self.time(event);
        let arguments = &event["args"];
        let is_kernel = event["cat"] == "kernel";
        let mut stage = ProtoMessage::default().uint(1, id).uint(2, length).uint(5, 1);
        stage = stage.uint(11, arguments["device"].as_u64().unwrap());
        stage = stage
            .uint(13, 100 + arguments["stream"].as_u64().unwrap())
            .uint(14, if is_kernel { 1 } else { 3 });
        if is_kernel {
            stage = stage.uint(20, self.names.number(event["name"].as_str().unwrap())).uint(19, 1);
            let sizes = |key: &str| {
                let size = |place: usize| arguments[key][place].as_u64().unwrap();
                ProtoMessage::default().uint(1, size(0)).uint(2, size(1)).uint(3, size(2))
            };
            let registers = ProtoMessage::default()
                .uint(1, 1)
                .uint(4, arguments["registers per thread"].as_u64().unwrap());
            let launch = ProtoMessage::default().message(1, &sizes("grid")).message(2, &sizes("block"));
            stage = stage.message(21, &launch.message(3, &registers));
        }
        let extra = [
            ("device id", "device", false),
            ("stream id", "stream", false),
            ("correlation", "correlation", true),
            ("bytes", "bytes", true),
        ];
        for (name, key, skips_zero) in extra {
            let value = arguments[key].as_u64().unwrap_or(0);
            if value > 0 || !skips_zero {
                stage = stage.message(6, &ProtoMessage::default().text(1, name).text(2, &value.to_string()));
            }
        }
        Self::packet(begin).uint(13, 2).message(53, &stage)
    }
}

/// The packets of a JSON trace.
fn packets(json: &str) -> Vec<u8> {
    let trace: Value = serde_json::from_str(json).unwrap();
    let base_ns = trace["baseTimeNanoseconds"].as_u64().unwrap();
    let mut encoder = PacketEncoder {
        base_ns,
        names: InternedNames::default(),
        categories: InternedNames::default(),
        tracks: BTreeMap::new(),
    };
    let events: Vec<&Value> = trace["traceEvents"].as_array().unwrap().iter().collect();
    let of = |categories: &[&str]| {
        let is_wanted = |event: &&&Value| categories.contains(&event["cat"].as_str().unwrap());
        events.iter().filter(is_wanted).copied().collect::<Vec<_>>()
    };
    let mut content = encoder.group(&of(&["cpu_op", "user_annotation", "python_function"]));
    content.extend(encoder.group(&of(&["cuda_runtime"])));
    for (id, event) in (1..).zip(of(&["kernel", "gpu_memset"])) {
        content.push(encoder.stage(id, event));
    }
    let clock = |id: u64| ProtoMessage::default().uint(1, id).uint(2, base_ns);
    let clocks = ProtoMessage::default().message(1, &clock(6)).message(1, &clock(1));
    let mut trace = vec![PacketEncoder::packet(base_ns).message(6, &clocks)];
    for ((process, thread), number) in &encoder.tracks {
        let thread = ProtoMessage::default()
            .uint(1, process.cast_unsigned())
            .uint(2, thread.cast_unsigned())
            .text(5, "t");
        trace.push(
            ProtoMessage::default()
                .message(60, &ProtoMessage::default().uint(1, *number).message(4, &thread)),
        );
    }
    let mut interned = encoder.names.messages(2, ProtoMessage::default());
    interned = encoder.categories.messages(1, interned);
    for (number, name) in [(1, "Kernel"), (2, "Memcpy"), (3, "Memset"), (107, "[0007] stream 7")] {
        interned = interned.message(24, &ProtoMessage::default().uint(1, number).text(2, name));
    }
    interned = interned.message(1001, &ProtoMessage::default().uint(1, 1).text(2, "registers_per_thread"));
    trace.push(ProtoMessage::default().uint(10, 1).uint(13, 1).message(12, &interned));
    trace.extend(content);
    trace.iter().fold(ProtoMessage::default(), |all, packet| all.message(1, packet)).0
}

/// Both forms of one trace, imported.
fn both() -> CommandFolder {
    let place = CommandFolder::new();
    let (json, _) = kineto(TraceTimes::Based, false);
    place.file("trace.json", &json);
    place.file("trace.pftrace", packets(&json));
    for (file, capture) in [("trace.json", "json.stallmap"), ("trace.pftrace", "packets.stallmap")] {
        place.run(&["import", file, "-o", capture]).expect_ok();
        place.run(&["check", capture]).expect_ok();
    }
    place
}

#[test]
fn packets_give_the_tables_of_the_json() {
    let place = both();
    for sql in [
        "SELECT * FROM launch ORDER BY kernel_id",
        "SELECT * FROM function",
        "SELECT * FROM op ORDER BY op_id",
        "SELECT * FROM python_frame ORDER BY frame_id",
        "SELECT * FROM python_state ORDER BY pystates_hash, depth",
        // The file leaves zeros out.
        "SELECT run_id, ordinal, kernel_id, thread_id, stream_id, nullif(correlation_id, 0) AS c, begin_ns, end_ns FROM launch_run ORDER BY ordinal",
        "SELECT run_id, activity_id, kind, kernel_id, device_id, stream_id, begin_ns, end_ns, size_bytes FROM gpu_activity ORDER BY activity_id",
        "SELECT process_id, started_ns, ended_ns, instrument FROM run",
    ] {
        let found = rows(&place, "packets.stallmap", sql);
        assert!(!found.is_empty(), "{sql}");
        assert_eq!(found, rows(&place, "json.stallmap", sql), "{sql}");
    }
    let calls = "SELECT count(*) AS n FROM launch_run WHERE end_ns IS NOT NULL";
    assert_eq!(number(&place, "packets.stallmap", calls), 35);
    place.run(&["report", "packets.stallmap", "--all"]).expect_ok();
    place.run(&["import", "trace.pftrace", "-o", "x.stallmap"]).check("import_packets");
}

#[test]
fn an_exported_perfetto_trace_keeps_its_ops_and_launches() {
    let place = both();
    place.run(&["export", "perfetto", "json.stallmap", "-o", "own.pftrace"]).expect_ok();
    place.run(&["import", "own.pftrace", "-o", "own.stallmap"]).expect_ok();
    place.run(&["check", "own.stallmap"]).expect_ok();
    for sql in [
        "SELECT name, begin_ns, end_ns FROM op ORDER BY begin_ns, end_ns, name",
        "SELECT begin_ns, end_ns FROM gpu_activity WHERE kind = 'kernel' ORDER BY begin_ns, end_ns",
        "SELECT grid_x, block_x, register_count FROM launch ORDER BY kernel_id",
        "SELECT o.name, count(*) AS n FROM launch l LEFT JOIN op o ON o.op_id = l.op_id GROUP BY o.name ORDER BY o.name",
    ] {
        assert_eq!(rows(&place, "own.stallmap", sql), rows(&place, "json.stallmap", sql), "{sql}");
    }
    // Launches without a measured time have none after an import either.
    place.run(&["export", "perfetto", "tiny.stallmap", "-o", "tiny.pftrace"]).expect_ok();
    place.run(&["import", "tiny.pftrace", "-o", "t.stallmap"]).expect_ok();
    let timed = "SELECT count(*) AS n FROM gpu_activity WHERE kind = 'kernel'";
    assert_eq!(
        number(&place, "t.stallmap", timed),
        number(&place, "tiny.stallmap", "SELECT count(*) AS n FROM launch_time WHERE is_measured")
    );
}

#[test]
fn cut_and_changed_packets_end() {
    let place = CommandFolder::new();
    let (json, _) = kineto(TraceTimes::Based, false);
    let whole = packets(&json);
    for length in (1..whole.len()).step_by(1 + whole.len() / 40) {
        place.file("cut", &whole[..length]);
        let ran = place.run(&["import", "cut", "-o", "x.stallmap"]);
        assert!(!ran.stderr.contains("panicked"), "{length}: {}", ran.stderr);
        if ran.code == Some(0) {
            std::fs::remove_file(place.path("x.stallmap")).unwrap();
        } else {
            assert_eq!(ran.code, Some(5), "{length}: {}", ran.stderr);
        }
    }
    // Whatever stands in front of the cut is read.
    place.file("cut", &whole[..whole.len() - 9]);
    place.run(&["import", "cut", "-o", "x.stallmap"]).expect_ok();
    let kernels = "SELECT count(*) AS n FROM launch";
    assert_eq!(number(&place, "x.stallmap", kernels), KERNELS);
    let lost = "SELECT count(*) AS n FROM loss WHERE detail LIKE 'byte % it ends in a packet of % bytes'";
    assert_eq!(number(&place, "x.stallmap", lost), 1);
    std::fs::remove_file(place.path("x.stallmap")).unwrap();
    let mut state = 1_u64;
    for _ in 0..40 {
        let mut changed = whole.clone();
        for _ in 0..3 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let place = usize::try_from(state >> 33).unwrap() % changed.len();
            changed[place] = state.to_le_bytes()[2];
        }
        place.file("changed", &changed);
        let ran = place.run(&["import", "changed", "-o", "x.stallmap"]);
        assert!(matches!(ran.code, Some(0 | 5)) && !ran.stderr.contains("panicked"), "{}", ran.stderr);
        if ran.code == Some(0) {
            place.run(&["check", "x.stallmap"]).expect_ok();
            std::fs::remove_file(place.path("x.stallmap")).unwrap();
        }
    }
    for (bytes, expected) in [
        (&b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\x7f"[..], "byte 0: a packet has"),
        (b"\x0a\x02\x08", "byte 2: it ends in a packet of 2 bytes"),
        (b"\x0a\x04\x5a\x7f\x08\x01", "byte 2: a field ends behind its message"),
        (b"\x0a\x02\x08\x01\x08", "no packet begins here"),
        (b"\x0a\x02\x08\x01", "it has no kernels and no ops"),
    ] {
        place.file("odd", bytes);
        let ran = place.run(&["import", "odd", "-o", "x.stallmap"]);
        assert!(ran.expect_error(5).stderr.contains(expected), "{}", ran.stderr);
    }
}
