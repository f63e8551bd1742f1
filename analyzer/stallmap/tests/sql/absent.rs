//! Captures with missing data: every view, every section and every recipe has a sound result.

use std::fs;
use std::path::Path;

use stallmap::library::queries::ALL;
use stallmap::session::Session;
use stallmap_schema::tables;

use crate::answer;
use crate::session::{remove_tables, tiny_folder};

/// Basis of everything else. Planning every view for each missing part would take a quarter of an hour.
const CORE: [&str; 6] = ["base", "tensor", "stall", "cost", "coverage", "report"];

/// Runs everything in some packages of the library, or in all. Returns failures.
async fn failures(session: &Session, packages: Option<&[&str]>) -> Vec<String> {
    let is_asked = |package: &str| packages.is_none_or(|packages| packages.contains(&package));
    let mut queries: Vec<(String, String)> = Vec::new();
    for view in session.library().unwrap().iter().filter(|view| is_asked(&view.package)) {
        queries.push((view.name.clone(), format!("SELECT * FROM {}", view.name)));
    }
    // `stallmap diff` fills its queries in. Its own tests cover captures with missing data.
    for (command, query) in ALL.iter().filter(|(command, _)| is_asked(command) && *command != "diff") {
        let text = query.text();
        if !reads_several(text) {
            let sql = text
                .replace("$top", "2")
                .replace("$function", "1")
                .replace("$sort", if query.name == "collectives" { "time_ns" } else { "samples" })
                .replace("$tensors", "1")
                .replace("$kernel", "1")
                .replace("$block", "1")
                .replace("$pc", "16")
                .replace("$low", "1")
                .replace("$past", "2")
                .replace("$phases", "'steady', 'once'")
                .replace("$filter", "true")
                .replace("$keys", "l.function_id, l.kernel")
                .replace("$view", "launch");
            queries.push((format!("{command}/{}", query.name), sql));
        }
    }
    let mut failed = Vec::new();
    for (name, sql) in queries {
        if let Err(error) = answer(session, &sql).await {
            failed.push(format!("{name}: {error}"));
        }
    }
    failed
}

/// True if a query reads two captures under names.
fn reads_several(text: &str) -> bool {
    text.contains("before.") || text.contains("after.")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_rows_everything_is_empty_and_sound() {
    let session = Session::without_rows().unwrap();
    assert_eq!(failures(&session, None).await, [""; 0]);
    for view in ["kernel_cost", "tensor_stall_cost", "stall_charge", "conservation_violation"] {
        let rows = answer(&session, &format!("SELECT * FROM {view}")).await.unwrap();
        assert_eq!(rows, [""; 0], "{view}");
    }
}

/// Captures among which each table is missing once: to plan everything for each table alone would take minutes.
const SHARES: usize = 2;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_table_can_be_missing() {
    let mut failed = Vec::new();
    for share in 0..SHARES {
        let folder = tempfile::tempdir().unwrap();
        let path = tiny_folder(folder.path());
        let names: Vec<&str> =
            tables::ALL.iter().skip(share).step_by(SHARES).map(|table| table.name).collect();
        remove_tables(&path, &names);
        let session = Session::open(&[(None, path)]).unwrap();
        failed.extend(
            failures(&session, Some(&CORE)).await.into_iter().map(|why| format!("without {names:?}: {why}")),
        );
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// Parts of a recording, and objects without attribution if the part is missing.
const PARTS: [(&str, &[&str]); 4] = [
    ("accesses", &["memory_access"]),
    ("samples", &["pc_sample"]),
    ("python", &["python_state", "python_frame", "op", "op_tensor", "tensor", "storage"]),
    ("code", &["module", "function"]),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_part_stalls_still_add_up() {
    for (part, tables) in PARTS {
        let folder = tempfile::tempdir().unwrap();
        let path = tiny_folder(folder.path());
        remove_tables(&path, tables);
        if part == "code" {
            fs::remove_dir_all(Path::new(&path).join("cubins")).unwrap();
            forget_files(&path);
        }
        let session = Session::open(&[(None, path)]).unwrap();
        assert_eq!(failures(&session, Some(&CORE)).await, [""; 0], "without {part}");
        let violations = answer(&session, "SELECT * FROM conservation_violation").await.unwrap();
        assert_eq!(violations, [""; 0], "without {part}");
        let sums = "SELECT round(coalesce((SELECT sum(samples) FROM stall_charge), 0.0), 6) \
            = round(coalesce((SELECT sum(samples) FROM sample), 0.0), 6)";
        assert_eq!(answer(&session, sums).await.unwrap(), ["true"], "without {part}");
    }
}

/// The manifest lists only the tables from now on.
fn forget_files(capture: &Path) {
    let manifest = capture.join("manifest.json");
    let mut json: serde_json::Value = serde_json::from_slice(&fs::read(&manifest).unwrap()).unwrap();
    json["files"] = serde_json::Value::Array(Vec::new());
    fs::write(&manifest, json.to_string()).unwrap();
}
