//! Sessions: several captures, allowed statements, and invalid captures.

use std::fs;
use std::path::{Path, PathBuf};

use arrow::array::Float64Array;
use stallmap::error::AnalyzeError;
use stallmap::library::queries::ALL;
use stallmap::library::user::UserLibrary;
use stallmap::session::Session;
use stallmap_write::{CaptureForm, CaptureWriter};

use crate::{answer, blame, graphs, replay, tiny};

pub(crate) fn tiny_folder(folder: &Path) -> PathBuf {
    let path = folder.join("tiny");
    tiny::write(&path, CaptureForm::Folder).unwrap();
    path
}

fn refused(opened: Result<Session, AnalyzeError>) -> String {
    opened.err().expect("opening fails").to_string()
}

#[tokio::test]
async fn captures_have_schemas_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let (a, b) = (tiny_folder(folder.path()), folder.path().join("blame.stallmap"));
    blame::write(&b);
    let named = |name: &str, path: &PathBuf| (Some(name.to_owned()), path.clone());
    let session = Session::open(&[named("a", &a), named("b", &b)]).unwrap();
    let launches = "SELECT (SELECT count(*) FROM launch WHERE op_id IS NOT NULL) AS x, \
        (SELECT count(*) FROM b.launch WHERE op_id IS NULL) AS y, (SELECT count(*) FROM a.tensor) AS z";
    assert_eq!(answer(&session, launches).await.unwrap(), ["3 | 3 | 4"]);
    let views =
        "SELECT (SELECT sum(samples) FROM a.sample_cost) AS x, (SELECT sum(samples) FROM b.sample_cost) AS y";
    assert_eq!(answer(&session, views).await.unwrap(), ["118.0 | 227.0"]);
    let schemas = "SELECT DISTINCT table_schema FROM information_schema.tables ORDER BY 1";
    assert_eq!(answer(&session, schemas).await.unwrap(), ["a", "b", "every", "information_schema"]);
    assert!(session.tables().iter().any(|table| table.capture == "b" && table.name == "access_tensor"));
    assert!(refused(Session::open(&[named("a", &a), named("a", &b)])).contains("two captures are named `a`"));
    assert!(refused(Session::open(&[named("a", &a), (None, b.clone())])).contains("has no name"));
    assert!(refused(Session::open(&[named("A b", &a)])).contains("`A b` cannot name a capture"));
    assert!(refused(Session::open(&[])).contains("no capture given"));
}

/// That a view has no rows is known once it is computed.
#[tokio::test]
async fn nothing_is_planned_above_a_view_without_rows() {
    let folder = tempfile::tempdir().unwrap();
    let session = Session::open(&[(None, tiny_folder(folder.path()))]).unwrap();
    let sql = "EXPLAIN SELECT l.kernel_id FROM launch l CROSS JOIN cost_violation v";
    assert!(answer(&session, sql).await.unwrap().concat().contains("Join"));
    session.keep(&["cost_violation"]).await.unwrap();
    let plan = answer(&session, sql).await.unwrap().concat();
    assert!(plan.contains("EmptyExec") && !plan.contains("Join"), "{plan}");
    let sides = "SELECT count(*) FROM launch l LEFT JOIN cost_violation v ON v.kernel_id = l.kernel_id";
    assert_eq!(answer(&session, sides).await, answer(&session, "SELECT count(*) FROM launch").await);
}

/// Numbers are small, and the launches of the first run are 0, 1, 2, ...
#[tokio::test]
async fn numbers_are_dense() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/two_ranks.stallmap");
    let session = Session::open(&[(None, path)]).unwrap();
    let launches = "SELECT run_id, min(kernel_id), max(kernel_id), min(kernel_id - ordinal) \
        FROM launch GROUP BY run_id ORDER BY run_id";
    assert_eq!(answer(&session, launches).await.unwrap(), ["2 | 0 | 29 | 0", "3 | 30 | 59 | 30"]);
    let ops = "SELECT min(op_id), max(op_id), count(*) FROM op";
    assert_eq!(answer(&session, ops).await.unwrap(), ["1 | 320 | 320"]);
}

/// The older capture lacks columns and a table of the newer one.
#[tokio::test]
async fn captures_of_two_releases_are_asked_together() {
    let folder = tempfile::tempdir().unwrap();
    let new = folder.path().join("new.stallmap");
    graphs::write(&new);
    let old = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/blame_replays.stallmap");
    let session = Session::open(&[(Some("old".to_owned()), old), (Some("new".to_owned()), new)]).unwrap();
    let launches = "SELECT capture, count(*) > 0, count(graph_id), max(capture_ordinal) FROM every.launch \
        WHERE capture = 'old' OR capture_ordinal IS NOT NULL GROUP BY capture ORDER BY capture";
    assert_eq!(answer(&session, launches).await.unwrap(), ["new | true | 4 | 2", "old | true | 0 | NULL"]);
    let graphs = "SELECT capture, count(*) FROM every.graph_launch GROUP BY capture";
    assert_eq!(answer(&session, graphs).await.unwrap(), ["new | 2"]);
    let ranks = "SELECT capture, rank FROM every.rank_cost ORDER BY capture, rank";
    assert_eq!(answer(&session, ranks).await.unwrap(), ["new | 0", "new | 1", "old | NULL"]);
}

/// DataFusion 55.2 loses rows here if joins pass their keys on as dynamic filters.
#[tokio::test]
async fn filters_behind_outer_joins_lose_no_rows() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/training_parts.stallmap");
    let session = Session::open(&[(None, path)]).unwrap();
    let line = answer(&session, "SELECT min(forward_line) FROM launch_context").await.unwrap();
    let count = |column: &str| format!("SELECT count(*) FROM launch_context WHERE {column} = '{}'", line[0]);
    let found = answer(&session, &count("forward_line")).await.unwrap();
    assert_ne!(found, ["0"]);
    assert_eq!(found, answer(&session, &count("coalesce(forward_line, '')")).await.unwrap());
}

/// DataFusion joins all keys of nested joins by one rule for nulls.
#[tokio::test]
async fn each_join_has_its_own_rule_for_nulls() {
    let folder = tempfile::tempdir().unwrap();
    let session = Session::open(&[(None, tiny_folder(folder.path()))]).unwrap();
    let pairs = "WITH a(x, y) AS (VALUES (1, 'p'), (2, 'q'), (NULL, NULL)), b AS (SELECT * FROM a)";
    let joins = [
        ("b ON (a.x IS NOT DISTINCT FROM b.x) CROSS JOIN (SELECT sum(x) AS s FROM b) c", "3"),
        ("b ON a.x = b.x JOIN b c ON (a.y IS NOT DISTINCT FROM c.y)", "2"),
        ("b ON (a.x IS NOT DISTINCT FROM b.x) WHERE a.y = b.y", "2"),
        ("b ON (a.x IS NOT DISTINCT FROM b.x) JOIN b c ON (b.x IS NOT DISTINCT FROM c.x)", "3"),
    ];
    for (join, count) in joins {
        let query = format!("{pairs} SELECT count(*) FROM a JOIN {join}");
        assert_eq!(answer(&session, &query).await.unwrap(), [count], "{join}");
    }
}

#[tokio::test]
async fn a_capture_is_only_read() {
    let folder = tempfile::tempdir().unwrap();
    let session = Session::open(&[(None, tiny_folder(folder.path()))]).unwrap();
    let file = folder.path().join("out.csv");
    for statement in [
        format!("COPY launch TO '{}'", file.display()),
        format!("CREATE EXTERNAL TABLE t STORED AS CSV LOCATION '{}'", file.display()),
        "INSERT INTO launch SELECT * FROM launch".to_owned(),
        format!("EXPLAIN ANALYZE COPY launch TO '{}'", file.display()),
    ] {
        let error = answer(&session, &statement).await.unwrap_err();
        assert!(error.contains("captures are read-only"), "{statement}: {error}");
    }
    assert!(!file.exists());
    answer(&session, "CREATE VIEW mine AS SELECT count(*) AS n FROM launch").await.unwrap();
    assert_eq!(answer(&session, "SELECT n FROM mine").await.unwrap(), ["3"]);
    assert!(answer(&session, "SELECT nothing FROM launch").await.unwrap_err().contains("nothing"));
}

#[tokio::test]
async fn filters_and_order_reach_the_capture() {
    let folder = tempfile::tempdir().unwrap();
    let session = Session::open(&[(None, tiny_folder(folder.path()))]).unwrap();
    let explain = "EXPLAIN FORMAT INDENT SELECT kernel_id, function_id, pc, tensor_id FROM access_tensor \
        WHERE kernel_id = 1 ORDER BY kernel_id, function_id, pc";
    let plan = answer(&session, explain).await.unwrap().join("\n");
    assert!(plan.contains("TensorExec: table=access_tensor"), "{plan}");
    assert!(plan.contains("predicate=kernel_id@0 = 1"), "{plan}");
    assert!(!plan.contains("SortExec") && !plan.contains("FilterExec"), "{plan}");
}

#[tokio::test]
async fn what_is_read_twice_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let session = Session::open(&[(None, tiny_folder(folder.path()))]).unwrap();
    let explain = "EXPLAIN FORMAT INDENT SELECT * FROM pc_tensor_part";
    let parts = "SELECT * FROM pc_tensor_part ORDER BY kernel_id, function_id, pc, target";
    let scanned = answer(&session, parts).await.unwrap();
    assert!(answer(&session, explain).await.unwrap().join("").contains("TensorExec"));
    answer(&session, "SELECT count(*) FROM tensor_stall_cost").await.unwrap();
    assert!(!answer(&session, explain).await.unwrap().join("").contains("TensorExec"));
    assert_eq!(answer(&session, parts).await.unwrap(), scanned);
}

#[tokio::test]
async fn views_that_are_read_twice_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let session = Session::open(&[(None, tiny_folder(folder.path()))]).unwrap();
    let explain = "EXPLAIN FORMAT INDENT SELECT * FROM sample_cost";
    let costs = "SELECT * FROM sample_cost ORDER BY kernel_id, run_id";
    let once = answer(&session, costs).await.unwrap();
    assert!(answer(&session, explain).await.unwrap().join("").contains("JoinExec"));
    // To name is not to read. To explain is: the plan is that of a run.
    answer(&session, "CREATE VIEW mine AS SELECT * FROM finding").await.unwrap();
    assert!(answer(&session, explain).await.unwrap().join("").contains("JoinExec"));
    let plan = answer(&session, "EXPLAIN SELECT count(*) FROM mine").await.unwrap().concat();
    assert!(plan.len() < 1_000_000, "{} bytes", plan.len());
    assert!(!answer(&session, explain).await.unwrap().join("").contains("JoinExec"));
    assert_eq!(answer(&session, costs).await.unwrap(), once);
}

#[tokio::test]
async fn every_view_can_be_read_twice() {
    let folder = tempfile::tempdir().unwrap();
    let session = Session::open(&[(None, tiny_folder(folder.path()))]).unwrap();
    for view in session.library().unwrap() {
        let name = &view.name;
        let once = answer(&session, &format!("SELECT count(*) FROM {name}")).await;
        let twice =
            format!("SELECT count(*) FROM {name} CROSS JOIN (SELECT count(*) AS n FROM {name}) AS again");
        assert_eq!(answer(&session, &twice).await, once, "{name}");
    }
}

#[tokio::test]
async fn kept_rows_of_a_union_are_those_of_all_its_inputs() {
    let folder = tempfile::tempdir().unwrap();
    let view = "-- One input.\nCREATE VIEW mixed (\n  -- A number.\n  n,\n  -- A text.\n  word\n) AS\n\
        SELECT count(*), NULL FROM op WHERE op_id < 0\nUNION ALL\nSELECT 0.5, max(name) FROM op\n";
    fs::create_dir(folder.path().join("views")).unwrap();
    fs::write(folder.path().join("views/mixed.sql"), view).unwrap();
    let typed = view.replace("NULL", "'none'").replace("mixed", "typed");
    fs::write(folder.path().join("views/typed.sql"), typed).unwrap();
    let mut session = Session::open(&[(None, tiny_folder(folder.path()))]).unwrap();
    session.extend(&UserLibrary::read(&folder.path().join("views")).unwrap()).unwrap();
    for name in ["mixed", "typed"] {
        let once = answer(&session, &format!("SELECT n, word FROM {name} ORDER BY n")).await.unwrap();
        let count = format!("SELECT count(*) AS n FROM {name}");
        let twice = format!("SELECT a.n, a.word FROM {name} a CROSS JOIN ({count}) AS b ORDER BY a.n");
        assert_eq!(answer(&session, &twice).await.unwrap(), once);
        assert!(once.concat().contains("0.5"), "{once:?}");
    }
}

#[tokio::test]
async fn a_view_of_many_rows_is_kept_as_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let view = "-- One number.\nCREATE VIEW many (\n  -- It.\n  n\n) AS\nSELECT DISTINCT value FROM generate_series(1, 4200000)\n";
    fs::create_dir(folder.path().join("views")).unwrap();
    fs::write(folder.path().join("views/many.sql"), view).unwrap();
    let mut session = Session::open(&[(None, tiny_folder(folder.path()))]).unwrap();
    session.extend(&UserLibrary::read(&folder.path().join("views")).unwrap()).unwrap();
    let twice = "SELECT count(*) FROM many a JOIN many b ON b.n = a.n";
    assert_eq!(answer(&session, twice).await.unwrap(), ["4200000"]);
    let explained = answer(&session, "EXPLAIN FORMAT INDENT SELECT * FROM many").await.unwrap().join("");
    assert!(explained.contains("parquet") && !explained.contains("AggregateExec"), "{explained}");
}

#[tokio::test]
async fn tables_of_later_releases_are_tables() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("later");
    let mut writer = CaptureWriter::create(&path, CaptureForm::Folder).unwrap();
    let luck = std::sync::Arc::new(Float64Array::from(vec![0.5, 0.25])) as _;
    let batch = arrow::array::RecordBatch::try_from_iter([("luck", luck)]).unwrap();
    writer.append("luck_table", &batch).unwrap();
    writer.finish().unwrap();
    let session = Session::open(&[(None, path)]).unwrap();
    assert_eq!(answer(&session, "SELECT sum(luck) FROM luck_table").await.unwrap(), ["0.75"]);
}

/// Change of a file's bytes.
type ByteChange = fn(&mut Vec<u8>);

/// Changes the one cubin of a capture's folder, and its manifest entry if it must match.
fn change_cubin(folder: &Path, change: ByteChange, is_listed: bool) {
    let entry = fs::read_dir(folder.join("cubins")).unwrap().next().unwrap().unwrap();
    let mut bytes = fs::read(entry.path()).unwrap();
    change(&mut bytes);
    fs::write(entry.path(), &bytes).unwrap();
    let manifest = folder.join("manifest.json");
    let mut json: serde_json::Value = serde_json::from_slice(&fs::read(&manifest).unwrap()).unwrap();
    let file = &mut json["files"][0];
    file["bytes"] = bytes.len().into();
    if is_listed {
        file["blake3"] = blake3::hash(&bytes).to_hex().as_str().into();
    }
    fs::write(&manifest, json.to_string()).unwrap();
}

/// A packed cubin whose sections of code hold other code, of so many instructions.
fn with_code(packed: &[u8], count: usize) -> Vec<u8> {
    // LDG R2, [R4] under barrier 0, and @P0 EXIT: each end of some lanes waits for each load before it.
    let words = [0x000e_0200_0c1e_1900_0000_0004_0402_7981_u128, 0x000f_c200_0380_0000_0000_0000_0000_094d];
    let mut cubin = zstd::decode_all(packed).unwrap();
    let number = |cubin: &[u8], at: usize| u64::from_le_bytes(cubin[at..at + 8].try_into().unwrap());
    let (headers, start) = (number(&cubin, 0x28), cubin.len() as u64);
    let section_count = u16::from_le_bytes(cubin[0x3c..0x3e].try_into().unwrap());
    for section in 0..u64::from(section_count) {
        let header = usize::try_from(headers + 64 * section).unwrap();
        let is_code = number(&cubin, header + 8) & 4 != 0;
        if is_code {
            cubin[header + 0x18..header + 0x20].copy_from_slice(&start.to_le_bytes());
            cubin[header + 0x20..header + 0x28].copy_from_slice(&(16 * count as u64).to_le_bytes());
        }
    }
    cubin.extend(words.iter().cycle().take(count).flat_map(|word| word.to_le_bytes()));
    zstd::encode_all(&cubin[..], 3).unwrap()
}

#[tokio::test]
async fn a_damaged_cubin_takes_its_functions_and_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let crafted = |bytes: &mut Vec<u8>| *bytes = with_code(bytes, 20_000);
    let long = |bytes: &mut Vec<u8>| *bytes = with_code(bytes, (4 << 20) / 16 + 1);
    let cut = |bytes: &mut Vec<u8>| bytes.truncate(bytes.len() / 2);
    let flip = |bytes: &mut Vec<u8>| bytes[20] ^= 1;
    let foreign = |bytes: &mut Vec<u8>| *bytes = zstd::encode_all(&b"no cubin"[..], 3).unwrap();
    let cases: [(ByteChange, bool, &str); 5] = [
        (cut, true, "its cubin is damaged: "),
        (flip, false, "its cubin has another hash than the manifest"),
        (foreign, true, "its cubin cannot be read: "),
        (crafted, true, "its analysis takes more than 11588608 steps"),
        (long, true, "its section has more than 4194304 bytes of code"),
    ];
    for (number, (change, is_listed, reason)) in cases.into_iter().enumerate() {
        let path = folder.path().join(number.to_string());
        tiny::write(&path, CaptureForm::Folder).unwrap();
        change_cubin(&path, change, is_listed);
        let session = Session::open(&[(None, path)]).unwrap();
        let summary = "SELECT count, detail FROM coverage WHERE position = 35";
        let summary = answer(&session, summary).await.unwrap();
        assert!(summary.len() == 1 && summary[0].starts_with(&format!("2.0 | {reason}")), "{summary:?}");
        assert_eq!(answer(&session, "SELECT count(*) FROM instruction").await.unwrap(), ["0"]);
        let none = "SELECT sum(samples) FROM stall_charge WHERE charge = 'no producer'";
        assert_eq!(answer(&session, none).await.unwrap(), ["100.0"]);
        assert_eq!(answer(&session, "SELECT * FROM conservation_violation").await.unwrap(), [""; 0]);
    }
}

/// Removes tables from a capture's folder, as if they had never been written.
pub(crate) fn remove_tables(folder: &Path, names: &[&str]) {
    for name in names {
        fs::remove_file(folder.join(format!("tables/{name}.parquet"))).unwrap();
    }
    let manifest = folder.join("manifest.json");
    let mut json: serde_json::Value = serde_json::from_slice(&fs::read(&manifest).unwrap()).unwrap();
    let is_kept = |table: &serde_json::Value| !names.iter().any(|name| table["name"] == *name);
    json["tables"].as_array_mut().unwrap().retain(is_kept);
    fs::write(&manifest, json.to_string()).unwrap();
}

#[tokio::test]
async fn a_release_before_a_table_does_not_miss_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = tiny_folder(folder.path());
    let of_replays = ["bundle", "bundle_page", "bundle_symbol", "bundle_content", "counter"];
    let missing = "SELECT detail FROM coverage WHERE position = 70 ORDER BY detail";
    remove_tables(&path, &of_replays);
    let session = Session::open(&[(None, path.clone())]).unwrap();
    assert_eq!(answer(&session, missing).await.unwrap(), {
        let mut sorted = of_replays;
        sorted.sort_unstable();
        sorted
    });
    remove_tables(&path, &["replay"]);
    let session = Session::open(&[(None, path)]).unwrap();
    assert_eq!(answer(&session, missing).await.unwrap(), [""; 0]);
    assert_eq!(answer(&session, "SELECT count(*) FROM replay_quality").await.unwrap(), ["0"]);
    assert_eq!(answer(&session, "SELECT sum(samples) FROM sample_cost").await.unwrap(), ["118.0"]);
}

#[tokio::test]
async fn sections_add_up_where_only_replays_were_sampled() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("replays.stallmap");
    replay::write(&path, false);
    let session = Session::open(&[(None, path)]).unwrap();
    let function = blame::function().0.to_string();
    // The queries of `diff` are about several captures.
    for (command, query) in ALL.iter().filter(|(command, _)| *command != "diff") {
        let name = query.name;
        let sql = query
            .text()
            .replace("$top", "2")
            .replace("$function", &function)
            .replace("$sort", if name == "collectives" { "time_ns" } else { "samples" })
            .replace("$tensors", "1")
            .replace("$kernel", "1")
            .replace("$block", "0")
            .replace("$pc", "16")
            .replace("$low", "1")
            .replace("$past", "2")
            .replace("$phases", "'steady', 'once'")
            .replace("$filter", "true")
            .replace("$keys", "l.function_id, l.kernel")
            .replace("$view", "call_path_cost");
        let rows = answer(&session, &sql).await;
        assert!(rows.is_ok(), "{name}: {rows:?}");
        // One execution of each launch at 64 cycles: 120 samples, and 110 * 4 / 5.
        if !["source", "verdict"].contains(command)
            && ["tensors", "kernels", "lines", "ops", "launches"].contains(&name)
        {
            let sum = format!("SELECT round(sum(samples), 6) FROM ({sql})");
            assert_eq!(answer(&session, &sum).await.unwrap(), ["208.0"], "{name}");
        }
    }
}

#[tokio::test]
async fn contents_of_pages_are_read_by_those_who_ask_for_them() {
    let folder = tempfile::tempdir().unwrap();
    let path = tiny_folder(folder.path());
    let file = path.join("tables/bundle_content.parquet");
    let mut bytes = fs::read(&file).unwrap();
    // Everything before the footer and its data.
    bytes[4..200].fill(0xa5);
    fs::write(&file, bytes).unwrap();
    let session = Session::open(&[(None, path)]).unwrap();
    assert!(answer(&session, "SELECT * FROM bundle_content").await.is_err());
    let asking = ["value_count", "nonfinite_origin"];
    for view in session.library().unwrap() {
        let ran = answer(&session, &format!("SELECT * FROM {}", view.name)).await;
        assert_eq!(ran.is_ok(), !asking.contains(&view.name.as_str()), "{}: {ran:?}", view.name);
    }
}

#[tokio::test]
async fn a_missing_table_is_empty_and_said() {
    let folder = tempfile::tempdir().unwrap();
    let path = tiny_folder(folder.path());
    remove_tables(&path, &["op_tensor"]);
    let session = Session::open(&[(None, path)]).unwrap();
    assert_eq!(answer(&session, "SELECT count(*) FROM op_tensor").await.unwrap(), ["0"]);
    let missing = "SELECT item, detail FROM coverage WHERE position = 70";
    assert_eq!(answer(&session, missing).await.unwrap(), ["missing table | op_tensor"]);
    assert_eq!(answer(&session, "SELECT * FROM conservation_violation").await.unwrap(), [""; 0]);
}

#[tokio::test]
async fn damaged_tables_are_errors() {
    let folder = tempfile::tempdir().unwrap();
    let path = tiny_folder(folder.path());
    for name in ["memory_access", "storage", "launch"] {
        let file = path.join(format!("tables/{name}.parquet"));
        let whole = fs::read(&file).unwrap();
        let mut errors = 0;
        for place in (4..whole.len()).step_by(whole.len() / 25) {
            let mut damaged = whole.clone();
            damaged[place..(place + 16).min(whole.len())].fill(0xa5);
            fs::write(&file, damaged).unwrap();
            // A panic would end the test. A result is right if only unused bytes changed.
            errors += match Session::open(&[(None, path.clone())]) {
                Ok(session) => {
                    i32::from(answer(&session, &format!("SELECT * FROM {name}")).await.is_err())
                        + i32::from(answer(&session, "SELECT * FROM access_tensor").await.is_err())
                }
                Err(_) => 1,
            };
        }
        fs::write(&file, whole).unwrap();
        assert!(errors > 0, "{name}");
    }
}

/// A count asks for no column, and must have as many rows as all columns.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_relation_counts_its_rows() {
    let folder = tempfile::tempdir().unwrap();
    let session = Session::open(&[(None, tiny_folder(folder.path()))]).unwrap();
    let names = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'capture' ORDER BY 1";
    for name in answer(&session, names).await.unwrap() {
        let rows = answer(&session, &format!("SELECT * FROM {name}")).await.unwrap().len();
        let count = answer(&session, &format!("SELECT count(*) FROM {name}")).await;
        assert_eq!(count, Ok(vec![rows.to_string()]), "{name}");
    }
}
