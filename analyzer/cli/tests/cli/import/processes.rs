//! Several processes and documents in a file, and several files of one program.

use super::base::{KERNEL_NS, document, events, import, kernel_ns, trace};
use super::{number, rows};
use crate::command::CommandFolder;

/// The begin of the op of each kernel, with the kernel's process and the rank of its run.
const OPS: &str = "SELECT o.begin_ns AS n, r.rank, a.begin_ns - o.begin_ns AS delay FROM gpu_activity a \
    JOIN launch l ON l.kernel_id = a.kernel_id JOIN op o ON o.op_id = l.op_id AND o.run_id = a.run_id \
    JOIN run r ON r.run_id = a.run_id ORDER BY 1";

#[test]
fn merged_ranks_join_within_each_process() {
    let place = CommandFolder::new();
    let merged: Vec<String> =
        [events("\"[TP00] 30\"", "\"[TP00] 0\"", 1000), events("\"[TP01] 30\"", "\"[TP01] 0\"", 1004)]
            .concat();
    import(&place, document(&merged), "x.stallmap");
    let found: Vec<(u64, u64, u64)> = rows(&place, "x.stallmap", OPS)
        .iter()
        .map(|row| ["n", "rank", "delay"].map(|key| row[key].as_u64().unwrap()).into())
        .collect();
    let expected = [1_000_000, 1_004_000, 1_100_000, 1_104_000, 1_200_000, 1_204_000];
    let expected: Vec<_> =
        expected.into_iter().zip([0, 1].into_iter().cycle()).map(|(n, rank)| (n, rank, 20_000)).collect();
    assert_eq!(found, expected);
    assert_eq!(kernel_ns(&place, "x.stallmap"), 2 * KERNEL_NS);
    assert_eq!(number(&place, "x.stallmap", "SELECT count(*) AS n FROM device_time"), 2);
    place.run(&["report", "x.stallmap"]).expect_ok();
}

#[test]
fn documents_of_a_file_are_read_one_after_another() {
    let place = CommandFolder::new();
    let second = document(&events("30", "0", 5000));
    import(&place, format!("{}\n{second}", trace()), "x.stallmap");
    assert_eq!(kernel_ns(&place, "x.stallmap"), 2 * KERNEL_NS);
    let sql = "SELECT count(*) AS n FROM launch l JOIN op o ON o.op_id = l.op_id";
    assert_eq!(number(&place, "x.stallmap", sql), 6);
    assert_eq!(number(&place, "x.stallmap", "SELECT count(*) AS n FROM run"), 1);
    assert_eq!(number(&place, "x.stallmap", "SELECT count(DISTINCT thread_id) AS n FROM op"), 1);
    // An empty one behind it is nothing.
    import(&place, format!("{}{{}}", trace()), "y.stallmap");
    assert_eq!(kernel_ns(&place, "y.stallmap"), KERNEL_NS);
}

#[test]
fn documents_in_documents_and_events_in_lines_are_read() {
    let place = CommandFolder::new();
    let rank = |rank: u64| {
        let info = format!(r#"{{"distributedInfo":{{"rank":{rank},"world_size":2}},"#);
        trace().replacen('{', &info, 1)
    };
    let ranks = [rank(0), rank(1)];
    let inputs = [
        (format!(r#"{{"status":"done","result":{{"trace":{}}}}}"#, trace()), 1, 1),
        (format!("[{}]", ranks.join(",")), 2, 2),
        (format!(r#"{{"rank0":{},"rank1":{}}}"#, ranks[0], ranks[1]), 2, 2),
        (events("30", "0", 1000).join("\n"), 1, 1),
    ];
    for (number_of, (text, documents, runs)) in inputs.iter().enumerate() {
        let capture = format!("x{number_of}.stallmap");
        import(&place, text, &capture);
        assert_eq!(kernel_ns(&place, &capture), documents * KERNEL_NS, "{text}");
        assert_eq!(rows(&place, &capture, OPS).len() as u64, 3 * documents, "{text}");
        assert_eq!(number(&place, &capture, "SELECT count(*) AS n FROM run"), *runs, "{text}");
    }
}

#[test]
fn begins_and_ends_that_stand_apart_are_spans() {
    let place = CommandFolder::new();
    let apart = |event: &String| {
        let event: serde_json::Value = serde_json::from_str(event).unwrap();
        let length = event["dur"].as_str().map_or_else(|| event["dur"].as_f64(), |text| text.parse().ok());
        let end = event["ts"].as_f64().unwrap() + length.unwrap();
        let begin = event.to_string().replacen(r#""ph":"X""#, r#""ph":"B""#, 1);
        let end = format!(r#"{{"ph":"E","pid":{},"tid":{},"ts":{end}}}"#, event["pid"], event["tid"]);
        [begin, end]
    };
    let mut parts: Vec<String> = events("30", "0", 1000).iter().flat_map(apart).collect();
    parts.push(r#"{"ph":"E","pid":30,"tid":30,"ts":990}"#.to_owned());
    let request = |ph: &str, ts: u64| {
        format!(r#"{{"ph":"{ph}","cat":"user_annotation","name":"r","id":1,"pid":30,"ts":{ts}}}"#)
    };
    parts.extend([request("b", 1010), request("e", 1500)]);
    let messages = import(&place, document(&parts), "x.stallmap");
    assert!(messages.contains("spans without an end, or ends without a begin: 1"), "{messages}");
    assert_eq!(kernel_ns(&place, "x.stallmap"), KERNEL_NS);
    assert_eq!(rows(&place, "x.stallmap", OPS).len(), 3);
    let spans = "SELECT CAST(sum(end_ns - begin_ns) AS BIGINT) AS n FROM op";
    assert_eq!(number(&place, "x.stallmap", spans), 3 * 60_000 + 490_000);
}

#[test]
fn files_of_several_ranks_are_one_capture() {
    let place = CommandFolder::new();
    for rank in 0..2 {
        let head = format!(r#"{{"distributedInfo":{{"rank":{rank},"world_size":2}},"traceEvents""#);
        let text = document(&events("30", "0", 1000 + rank)).replacen(
            "{\"schemaVersion\":1,\"traceEvents\"",
            &head,
            1,
        );
        place.file(&format!("r{rank}.json"), text);
    }
    place.run(&["import", "r0.json", "r1.json", "-o", "x.stallmap"]).expect_ok();
    place.run(&["check", "x.stallmap"]).expect_ok();
    assert_eq!(kernel_ns(&place, "x.stallmap"), 2 * KERNEL_NS);
    assert_eq!(
        number(&place, "x.stallmap", "SELECT count(DISTINCT rank) AS n FROM run WHERE world_size = 2"),
        2
    );
    assert_eq!(rows(&place, "x.stallmap", OPS).len(), 6);
    let ran = place.run(&["import", "r0.json", "r0.json", "-o", "y.stallmap"]);
    ran.expect_error(2);
    assert!(ran.stderr.contains("these traces are of one process"), "{}", ran.stderr);
}

#[test]
fn exports_of_several_ranks_keep_their_gpus_apart() {
    let place = CommandFolder::new();
    for rank in 0..2 {
        let head = format!(r#"{{"distributedInfo":{{"rank":{rank},"world_size":2}},"traceEvents""#);
        let head_of_file = "{\"schemaVersion\":1,\"traceEvents\"";
        let text = document(&events("30", "0", 1000 + rank)).replacen(head_of_file, &head, 1);
        place.file(&format!("r{rank}.json"), text);
    }
    place.run(&["import", "r0.json", "r1.json", "-o", "x.stallmap"]).expect_ok();
    let sql = "SELECT r.rank, a.device_id, count(*) AS n, CAST(sum(a.end_ns - a.begin_ns) AS BIGINT) AS ns \
        FROM gpu_activity a JOIN run r ON r.run_id = a.run_id GROUP BY r.rank, a.device_id ORDER BY r.rank";
    place.run(&["export", "kineto", "x.stallmap", "-o", "x.json.gz"]).expect_ok();
    place.run(&["import", "x.json.gz", "-o", "y.stallmap"]).expect_ok();
    assert_eq!(rows(&place, "y.stallmap", sql), rows(&place, "x.stallmap", sql));
    assert_eq!(rows(&place, "y.stallmap", OPS).len(), 6);
    place.run(&["export", "perfetto", "x.stallmap", "-o", "x.pftrace"]).expect_ok();
    place.run(&["import", "x.pftrace", "-o", "z.stallmap"]).expect_ok();
    let ordinals = "SELECT count(*) AS n FROM gpu_activity WHERE device_id = 0";
    assert_eq!(number(&place, "z.stallmap", ordinals), number(&place, "x.stallmap", ordinals));
}
