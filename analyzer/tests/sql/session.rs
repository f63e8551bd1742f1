//! Sessions: several captures, what may be asked, and captures that are not as they should be.

use std::fs;
use std::path::{Path, PathBuf};

use arrow::array::Float64Array;
use stallmap::engine::derived::ProducerWeight;
use stallmap::error::AnalyzeError;
use stallmap::session::Session;
use stallmap_schema::capture::reader::CaptureReader;
use stallmap_schema::capture::writer::{CaptureWriter, Form};
use stallmap_schema::id::{FunctionId, Pc};
use stallmap_schema::table::Row as _;
use stallmap_schema::tables::run::Run;

use crate::{answer, blame, tiny};

fn tiny_folder(folder: &Path) -> PathBuf {
    let path = folder.join("tiny");
    tiny::write(&path, Form::Folder).unwrap();
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
    assert_eq!(answer(&session, views).await.unwrap(), ["118 | 227"]);
    let schemas = "SELECT DISTINCT table_schema FROM information_schema.tables ORDER BY 1";
    assert_eq!(answer(&session, schemas).await.unwrap(), ["a", "b", "information_schema"]);
    assert!(session.tables().iter().any(|table| table.capture == "b" && table.name == "access_tensor"));
    assert!(refused(Session::open(&[named("a", &a), named("a", &b)])).contains("two captures are named `a`"));
    assert!(refused(Session::open(&[named("a", &a), (None, b.clone())])).contains("has no name"));
    assert!(refused(Session::open(&[named("A b", &a)])).contains("`A b` cannot name a capture"));
    assert!(refused(Session::open(&[])).contains("no capture was named"));
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
        assert!(error.contains("a capture is only read"), "{statement}: {error}");
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
        WHERE kernel_id = 1099511627777 ORDER BY kernel_id, function_id, pc";
    let plan = answer(&session, explain).await.unwrap().join("\n");
    assert!(plan.contains("TensorExec: table=access_tensor"), "{plan}");
    assert!(plan.contains("predicate=kernel_id@0 = 1099511627777"), "{plan}");
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
async fn weights_in_a_capture_replace_the_rule() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("weighted");
    let mut writer = CaptureWriter::create(&path, Form::Folder).unwrap();
    let ruled = folder.path().join("blame.stallmap");
    blame::write(&ruled);
    let ruled = CaptureReader::open(&ruled).unwrap();
    for table in ruled.tables() {
        for batch in ruled.read_table(&table.name).unwrap() {
            writer.append(&table.name, &batch.unwrap()).unwrap();
        }
    }
    let weight = ProducerWeight {
        function_id: FunctionId(7),
        pc: Pc(0x50),
        stall_reason: "drain".to_owned(),
        producer_pc: Pc(0x10),
        weight: 0.75,
        confidence: "exact".to_owned(),
        method: "slice".to_owned(),
    };
    writer.append_rows([weight]).unwrap();
    // A table that this release does not know.
    let run = ruled.read_table(Run::TABLE.name).unwrap().next().unwrap().unwrap();
    let extra = std::sync::Arc::new(Float64Array::from(vec![0.5; run.num_rows()])) as _;
    let extra = arrow::array::RecordBatch::try_from_iter([("luck", extra)]).unwrap();
    writer.append("luck_table", &extra).unwrap();
    writer.finish().unwrap();
    let session = Session::open(&[(None, path)]).unwrap();
    let producers =
        "SELECT producer_pc, remainder, weight, method FROM producer WHERE stall_reason = 'drain' ORDER BY 3";
    let given = answer(&session, producers).await.unwrap();
    assert_eq!(given, ["NULL | no producer | 0.25 | none", "16 | NULL | 0.75 | slice"]);
    assert_eq!(answer(&session, "SELECT * FROM conservation_violation").await.unwrap(), [""; 0]);
    assert_eq!(answer(&session, "SELECT sum(luck) FROM luck_table").await.unwrap(), ["1.0"]);
}

#[tokio::test]
async fn a_missing_table_is_empty_and_said() {
    let folder = tempfile::tempdir().unwrap();
    let path = tiny_folder(folder.path());
    fs::remove_file(path.join("tables/op_tensor.parquet")).unwrap();
    let manifest = path.join("manifest.json");
    let mut json: serde_json::Value = serde_json::from_slice(&fs::read(&manifest).unwrap()).unwrap();
    json["tables"].as_array_mut().unwrap().retain(|table| table["name"] != "op_tensor");
    fs::write(&manifest, json.to_string()).unwrap();
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
            // A panic would end the test; an answer is right where only unused bytes were hit.
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
