//! Databases as a whole, and the texts of markers.

use rusqlite::Connection;

use super::*;

/// Tables of a process: kernels of two queues, a copy between two GPUs, and calls.
const TABLES: &str = "
CREATE TABLE rocpd_string_a (id, string);
INSERT INTO rocpd_string_a VALUES (1, 'hipLaunchKernel'), (2, 'hipMalloc'), (3, 'hipDeviceSynchronize');
CREATE TABLE rocpd_info_agent_a (id, type, type_index, product_name, name);
INSERT INTO rocpd_info_agent_a VALUES (2, 'GPU', 0, 'MI300X', ''), (3, 'GPU', 1, 'MI300X', '');
CREATE TABLE rocpd_event_a (id, stack_id, category_id, extdata);
INSERT INTO rocpd_event_a VALUES (1, 11, NULL, '{}'), (2, 12, NULL, '{}'), (3, 13, NULL, '{}'), (4, 11, NULL, '{}');
CREATE TABLE rocpd_region_a (start, end, tid, name_id, event_id);
INSERT INTO rocpd_region_a VALUES (10, 20, 7, 1, 1), (30, 40, 7, 2, 2), (50, 60, 7, 3, 3);
CREATE TABLE rocpd_arg_a (id);
INSERT INTO rocpd_arg_a VALUES (1), (2);
CREATE TABLE rocpd_kernel_dispatch_a (start, end, agent_id, stream_id, queue_id, event_id);
INSERT INTO rocpd_kernel_dispatch_a VALUES (15, 35, 2, NULL, 1, 4), (25, 45, 2, 0, 2, NULL);
CREATE TABLE rocpd_memory_copy_a (start, end, dst_agent_id, src_agent_id, stream_id, size, event_id);
INSERT INTO rocpd_memory_copy_a VALUES (50, 60, 2, 3, 0, 64, NULL);
";

/// The trace of a database.
fn trace(more: &str) -> TraceModel {
    let file = tempfile::NamedTempFile::new().unwrap();
    Connection::open(file.path()).unwrap().execute_batch(&format!("{TABLES}{more}")).unwrap();
    read(&OpenDatabase::open(file.path()).unwrap(), file.path()).unwrap().unwrap()
}

fn lost(trace: &TraceModel, part: &str) -> u64 {
    trace.losses.rows().filter(|(_, reason, ..)| reason.contains(part)).map(|(_, _, count, _)| count).sum()
}

#[test]
fn queues_are_lanes_without_streams() {
    let streams = |trace: &TraceModel| trace.kernels.iter().map(|kernel| kernel.stream).collect::<Vec<_>>();
    assert_eq!(streams(&trace("")), [1, 2]);
    assert_eq!(streams(&trace("UPDATE rocpd_memory_copy_a SET stream_id = 5")), [0, 0]);
}

#[test]
fn work_has_its_call_and_its_devices_and_other_rows_are_counted() {
    let found = trace("");
    assert_eq!(found.kernels[0].call_name.as_deref(), Some("hipLaunchKernel"));
    let copy = found.works.iter().find(|work| work.copy.is_some()).unwrap();
    assert_eq!((copy.device, copy.peer), (Some(0), Some(1)));
    assert_eq!((lost(&found, "launch nothing"), lost(&found, "arguments of calls")), (1, 2));
}

#[test]
fn markers_have_their_messages() {
    let message = |text| super::message(Some(text));
    assert_eq!(message(r#"{"message": "train \"0\""}"#).as_deref(), Some(r#"train "0""#));
    let escaped = r#"{"level": {"message": 1}, "message": "caf\u00e9\n\\ x"}"#;
    assert_eq!(message(escaped).as_deref(), Some("caf\u{e9}\n\\ x"));
    assert_eq!((message(r#"{"message":"#), message("{}")), (None, None));
}
