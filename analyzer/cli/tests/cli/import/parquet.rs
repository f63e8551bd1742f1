//! Tables in files: reports of Nsight Systems as folders of Parquet and Arrow, and traces that Perfetto exported. Each gives the
//! capture of the other form.

use std::fs;

use super::base::trace;
use super::{GRAPHS_NS, NSYS, number, python, rows};
use crate::command::CommandFolder;

/// The tables of the SQLite report as Parquet, with the types that writers choose: texts in dictionaries, small integers.
const FOLDER: &str = r#"
import os, pyarrow as pa, pyarrow.parquet as pq
os.mkdir("r")
for (table,) in base.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
    cursor = base.execute(f"SELECT * FROM {table}")
    names = [column[0] for column in cursor.description]
    columns = list(zip(*cursor.fetchall())) or [[] for _ in names]
    arrays = [pa.array(column) for column in columns]
    arrays = [array.dictionary_encode() if array.type == pa.string() else array for array in arrays]
    arrays = [array.cast(pa.int32()) if name in ("deviceId", "gridX") else array for name, array in zip(names, arrays)]
    rows = pa.table(arrays, names)
    if table == "NVTX_EVENTS":
        with pa.ipc.new_stream(f"r/{table}.arrow", rows.schema) as file:
            file.write_table(rows)
        continue
    pq.write_table(rows, f"r/{table}.parquet")
open("r/notes.txt", "w").write("not a table")
"#;

#[test]
fn a_folder_gives_the_capture_of_the_database() {
    let place = CommandFolder::new();
    let total: u64 = python(&place, &format!("{NSYS}{FOLDER}")).parse().unwrap();
    place.run(&["import", "r.sqlite", "-o", "a.stallmap"]).expect_ok();
    place.run(&["import", "r", "-o", "b.stallmap"]).expect_ok();
    place.run(&["check", "b.stallmap"]).expect_ok();
    let sum = "SELECT CAST(sum(end_ns - begin_ns) AS BIGINT) AS n FROM gpu_activity WHERE kind = 'kernel'";
    assert_eq!(number(&place, "b.stallmap", sum), total + GRAPHS_NS);
    for table in ["gpu_activity", "launch", "launch_run", "op", "loss", "run", "function"] {
        let all = format!("SELECT * FROM {table}");
        let found = rows(&place, "a.stallmap", &all);
        assert!(!found.is_empty() && found == rows(&place, "b.stallmap", &all), "{table}");
    }
    let bytes = fs::read(place.path("b.stallmap")).unwrap();
    let secret = b"planted-secret".as_slice();
    assert!(!bytes.windows(secret.len()).any(|part| part == secret));
}

/// The tables that `trace_processor export arrow_tar` writes of a trace in JSON.
const PERFETTO: &str = r#"
import io, json, pyarrow as pa, tarfile
events = json.load(open("t.json"))["traceEvents"]
lanes = sorted({(event["pid"], event["tid"]) for event in events})
flat = lambda key, value: [(key, value)] if not isinstance(value, list) else [
    pair for place, part in enumerate(value) for pair in flat(f"{key}[{place}]", part)]
pairs = [(number, f"args.{key}", value) for number, event in enumerate(events) for name, inner in event["args"].items() for key, value in flat(name, inner)]
def optional(kind, values):
    return [value if isinstance(value, kind) else None for value in values]
tables = {
    "slice": {"id": list(range(len(events))), "ts": [event["ts"] * 1000 for event in events],
        "dur": [round(event["dur"] * 1000) for event in events], "track_id": [lanes.index((event["pid"], event["tid"])) for event in events],
        "category": [event["cat"] for event in events], "name": [event["name"] for event in events], "arg_set_id": list(range(len(events)))},
    "track": {"id": list(range(len(lanes))), "utid": list(range(len(lanes)))},
    "thread": {"id": list(range(len(lanes))), "tid": [tid for _, tid in lanes], "upid": [pid for pid, _ in lanes]},
    "process": {"id": [0, 30], "pid": [0, 30]},
    "args": {"arg_set_id": [number for number, _, _ in pairs], "key": [key for _, key, _ in pairs],
        "int_value": optional(int, (value for _, _, value in pairs)), "string_value": optional(str, (value for _, _, value in pairs))},
    "sched": {"id": [1]},
}
with tarfile.open("t.tar", "w") as archive:
    for name, columns in tables.items():
        rows, content = pa.table(columns), io.BytesIO()
        with pa.ipc.new_file(content, rows.schema) as file:
            file.write_table(rows)
        entry = tarfile.TarInfo(f"__intrinsic_{name}.arrow")
        entry.size = len(content.getvalue())
        archive.addfile(entry, io.BytesIO(content.getvalue()))
"#;

#[test]
fn tables_of_perfetto_give_the_capture_of_the_trace() {
    let place = CommandFolder::new();
    let inputs = r#""cat":"cpu_op","name":"aten::mm","pid":30,"tid":30,"ts":1000,"dur":60,"args":{"#;
    let shapes = r#""Input Dims":[[4,8],[8,2]],"Input type":["float","float"]"#;
    place.file("t.json", trace().replacen(inputs, &format!("{inputs}{shapes}"), 1));
    python(&place, PERFETTO);
    for (file, capture) in [("t.json", "a.stallmap"), ("t.tar", "b.stallmap")] {
        place.run(&["import", file, "-o", capture]).expect_ok();
    }
    for table in ["gpu_activity", "launch", "launch_run", "op", "function", "op_input"] {
        let all = format!("SELECT * FROM {table}");
        let found = rows(&place, "a.stallmap", &all);
        assert!(!found.is_empty() && found == rows(&place, "b.stallmap", &all), "{table}");
    }
    let whole = fs::read(place.path("t.tar")).unwrap();
    place.file("cut.tar", &whole[..1000]);
    place.run(&["import", "cut.tar", "-o", "x.stallmap"]).expect_error(5);
}

#[test]
fn damaged_tables_of_a_folder_are_losses() {
    let place = CommandFolder::new();
    python(&place, &format!("{NSYS}{FOLDER}"));
    let table = place.path("r/CUPTI_ACTIVITY_KIND_KERNEL.parquet");
    let whole = fs::read(&table).unwrap();
    for length in [0, 3, 4, whole.len() / 2, whole.len() - 9, whole.len() - 1] {
        fs::write(&table, &whole[..length]).unwrap();
        let capture = format!("cut{length}.stallmap");
        place.run(&["import", "r", "-o", &capture]).expect_ok();
        let lost =
            "SELECT sum(lost_count) AS n FROM loss WHERE reason LIKE 'tables whose rows behind a damage%'";
        assert_eq!(number(&place, &capture, lost), 1);
    }
    // A byte of the pages or of the footer changes: an error or other values, never a panic.
    for at in (4..whole.len()).step_by(151) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x55;
        fs::write(&table, bytes).unwrap();
        let ran = place.run(&["import", "r", "-o", &format!("{at}.stallmap")]);
        assert!(matches!(ran.code, Some(0 | 5)), "{at}: {:?} {}", ran.code, ran.stderr);
    }
    fs::create_dir(place.path("empty")).unwrap();
    place.run(&["import", "empty", "-o", "x.stallmap"]).expect_error(5);
}
