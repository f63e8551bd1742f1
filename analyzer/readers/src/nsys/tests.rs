//! Tests of reports: kernels, names and damages.

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use arrow::ipc::writer::FileWriter;

use super::*;

#[test]
fn a_folder_of_another_tool_is_named() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("host.xplane.pb"), "").unwrap();
    let error = read(&ImportInput::from_path(folder.path()).unwrap()).unwrap_err();
    assert!(error.to_string().ends_with("is a folder with traces of XLA's profiler"), "{error}");
}

/// The trace of a database of some statements.
pub(super) fn database(statements: &str) -> TraceModel {
    let file = tempfile::NamedTempFile::new().unwrap();
    rusqlite::Connection::open(file.path()).unwrap().execute_batch(statements).unwrap();
    read(&ImportInput::from_path(file.path()).unwrap()).unwrap()
}

/// The number of a loss.
pub(super) fn lost(trace: &TraceModel, part: &str) -> u64 {
    trace.losses.rows().filter(|(_, reason, ..)| reason.contains(part)).map(|row| row.2).sum()
}

/// Kernels by begin, end and the number of their name.
const KERNELS: &str = "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start, end, deviceId, globalPid, shortName);";

#[test]
fn kernels_that_end_before_they_begin_are_counted() {
    let graphs = "CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE (start, end, deviceId);
        INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE VALUES (70, 60, 0), (80, 90, 0);";
    let kernels = "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (10, 20, 0, 0, 1), (50, 40, 0, 0, 1);";
    let found = database(&format!("{KERNELS}{kernels}{graphs}"));
    let times: Vec<_> = found.kernels.iter().filter_map(|kernel| kernel.time_ns).collect();
    assert_eq!(times, [(10, 20), (50, 50), (70, 70), (80, 90)]);
    assert_eq!(lost(&found, "end before they begin"), 2);
}

#[test]
fn kernels_without_a_name_are_counted() {
    let names = "CREATE TABLE StringIds (id, value); INSERT INTO StringIds VALUES (1, 'gemm');";
    let kernels = "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (1, 2, 0, 0, 1), (3, 4, 0, 0, 9);";
    let found = database(&format!("{KERNELS}{names}{kernels}"));
    let names: Vec<&str> = found.kernels.iter().map(|kernel| &*kernel.name).collect();
    assert_eq!(names, ["gemm", "(unknown kernel)"]);
    assert_eq!(lost(&found, "kernels without a name"), 1);
}

#[test]
fn a_damaged_table_of_a_folder_is_a_loss_of_its_rows() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    std::fs::write(file("NVTX_EVENTS.parquet"), "PAR1PAR1").unwrap();
    let open = || read(&ImportInput::from_path(folder.path()).unwrap());
    let error = open().unwrap_err().to_string();
    assert!(error.contains("NVTX_EVENTS: "), "{error}");
    let numbers = |first: i64| std::sync::Arc::new(Int64Array::from(vec![first])) as ArrayRef;
    let columns = [("start", numbers(10)), ("end", numbers(20)), ("deviceId", numbers(0))];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let kernels = std::fs::File::create(file("CUPTI_ACTIVITY_KIND_KERNEL.arrow")).unwrap();
    let mut writer = FileWriter::try_new(kernels, &batch.schema()).unwrap();
    writer.write(&batch).unwrap();
    writer.finish().unwrap();
    let found = open().unwrap();
    assert_eq!((found.kernels.len(), lost(&found, "behind a damage")), (1, 1));
}

#[test]
fn a_trace_of_another_database_is_named() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let tables = "CREATE TABLE rocpd_op (id); CREATE TABLE rocpd_kernelapi (id)";
    rusqlite::Connection::open(file.path()).unwrap().execute_batch(tables).unwrap();
    let error = read(&ImportInput::from_path(file.path()).unwrap()).unwrap_err();
    assert!(error.to_string().contains("rocmProfileData"), "{error}");
}
