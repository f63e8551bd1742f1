//! Parts of a report that the import leaves out: whole tables, and events that Nsight Systems says it lost.

use crate::error::ReadResult;
use crate::model::TraceLosses;
use stallmap_schema::word::LossKind;

use super::ReportTables;
use super::cell::is_version;

/// Tables that are read, also in part.
const READ: [&str; 10] = [
    "StringIds",
    "CUPTI_ACTIVITY_KIND_RUNTIME",
    "CUPTI_ACTIVITY_KIND_DRIVER",
    "CUPTI_ACTIVITY_KIND_KERNEL",
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
    "CUPTI_ACTIVITY_KIND_MEMCPY",
    "CUPTI_ACTIVITY_KIND_MEMSET",
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
    "NVTX_EVENTS",
    DIAGNOSTICS,
];
/// Names, settings and schemas: their tables hold no events.
const SETTINGS: [&str; 10] = [
    "ANALYSIS_",
    "ENUM_",
    "EXPORT_",
    "META_DATA_",
    "NVTX_PAYLOAD_",
    "PROCESSES",
    "ProcessStreams",
    "TARGET_INFO_",
    "ThreadNames",
    "sqlite_",
];
/// Methods by which the recording walked stacks: names, too.
const METHODS: &str = "UnwindMethodType";
/// Messages of Nsight Systems.
const DIAGNOSTICS: &str = "DIAGNOSTIC_EVENT";
/// Allocations and frees of GPU memory.
const ALLOCATIONS: &str = "CUDA_GPU_MEMORY_USAGE_EVENTS";
/// Severities of messages.
const WARNING: i64 = 2;
const ERROR: i64 = 3;
/// Parts of warnings about events that are missing.
const MISSING: [&str; 5] = ["lost", "dropped", "not all", "missing", "incomplete"];
/// The loss of calls without a kernel, a copy or a fill.
pub(super) const IDLE_CALLS: &str = "calls of the runtime and the driver that launch nothing";
/// Most tables and messages with a row of their own.
const MAX_LOSSES: usize = 1 << 8;

/// Counts the rows of tables that are not read, and names the messages about lost events.
pub(super) fn count(tables: &ReportTables, losses: &mut TraceLosses) -> ReadResult<()> {
    let mut has_allocations = false;
    let names = tables.names()?;
    for name in names.iter().filter(|name| is_unread(name)).take(MAX_LOSSES) {
        let Some(count) = tables.count(name) else {
            losses.add(LossKind::Source, "tables that are not read and that are damaged", Some(name));
            continue;
        };
        has_allocations |= count > 0 && is_version(name, ALLOCATIONS);
        losses.add_many(LossKind::Source, &format!("rows of the table `{name}`"), count, None);
    }
    losses.lacks(if has_allocations { "tensors" } else { "tensors and allocations" });
    let mut messages = 0;
    tables.rows(DIAGNOSTICS, &["severity", "text"], |row| {
        let Some(text) = row.text(1).filter(|text| is_of_lost_events(row.integer(0), text)) else { return };
        messages += 1;
        if messages <= MAX_LOSSES {
            losses.add(LossKind::Source, &format!("Nsight Systems says: {text}"), None);
        }
    })?;
    Ok(())
}

/// True for a table of events that nothing here reads.
fn is_unread(name: &str) -> bool {
    name != METHODS
        && !SETTINGS.iter().any(|begin| name.starts_with(begin))
        && !READ.iter().any(|read| is_version(name, read))
}

/// True for errors, and for warnings about events that are missing.
fn is_of_lost_events(severity: Option<i64>, text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    severity == Some(ERROR) || severity == Some(WARNING) && MISSING.iter().any(|part| text.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::TraceModel;
    use crate::nsys::tests::{database, lost};

    /// The trace of a database of a kernel and of other tables.
    fn report(tables: &str) -> TraceModel {
        let kernel = "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start, end, deviceId, correlationId);
            INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (10, 20, 0, 1);";
        database(&format!("{kernel}{tables}"))
    }

    #[test]
    fn calls_without_work_are_counted_and_waits_are_not() {
        let found = report(
            "CREATE TABLE StringIds (id, value);
            INSERT INTO StringIds VALUES (1, 'cudaLaunchKernel'), (2, 'cudaMalloc'), (3, 'cudaDeviceSynchronize');
            CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start, end, globalTid, correlationId, nameId);
            INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (1, 2, 7, 1, 1), (3, 4, 7, 2, 2), (5, 6, 7, 3, 3)",
        );
        assert_eq!(lost(&found, IDLE_CALLS), 1);
    }

    #[test]
    fn kernels_without_a_call_are_of_before_or_of_a_report_without_calls() {
        let calls = "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start, end, globalTid, correlationId);
            INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (1, 2, 7, 5)";
        let (found, none) = (report(calls), report(""));
        let both =
            |trace: &TraceModel| (lost(trace, "before its window"), lost(trace, "the report has no calls"));
        assert_eq!((both(&found), both(&none)), ((1, 0), (0, 1)));
    }

    #[test]
    fn payloads_and_domains_of_ranges_are_counted() {
        let found = report(
            "CREATE TABLE NVTX_EVENTS (start, end, eventType, globalTid, text, domainId, uint64Value, doubleValue);
            INSERT INTO NVTX_EVENTS VALUES (1, 2, 59, 7, 'a', 0, NULL, NULL), (3, 4, 59, 7, 'b', 2, 64, NULL),
                (5, 6, 59, 7, 'c', NULL, NULL, 0.5)",
        );
        assert_eq!(found.ops.len(), 3);
        assert_eq!((lost(&found, "payloads of"), lost(&found, "domains of")), (2, 1));
    }

    #[test]
    fn tables_of_events_are_counted_and_tables_of_names_are_not() {
        let all = ["OSRT_API", "NVTX_EVENTS_V2", "ENUM_CUDA_MEM_KIND", "MPI_COLLECTIVES_EVENTS", "StringIds"];
        let unread: Vec<&str> = all.into_iter().filter(|name| is_unread(name)).collect();
        assert_eq!(unread, ["OSRT_API", "MPI_COLLECTIVES_EVENTS"]);
    }

    #[test]
    fn errors_and_warnings_of_lost_events_are_losses() {
        let is_lost = |severity, text| is_of_lost_events(Some(severity), text);
        assert!(is_lost(3, "CUPTI failed") && is_lost(2, "Not all CUDA events might have been collected."));
        assert!(!is_lost(2, "CPU sampling is off") && !is_lost(1, "0 events were lost"));
    }
}
