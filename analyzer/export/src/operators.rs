//! Operator Profiler's profile.json 1.0: ops with their kernels, counters and sums.
//!
//! Its integers have no null: a kernel without a measured duration is not in the file, and a warning counts these.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use stallmap::library::queries::export as queries;
use stallmap_console::exit::{CommandFailure, Outcome, QUERY};
use stallmap_console::rows;

use crate::source::{ExportSource, FileFormat, json as document};
use crate::timeline::{
    TimelineCounter, TimelineDevice, TimelineLaunch, TimelineLoss, TimelineProcess, time_source,
};

/// Operator Profiler.
pub(crate) const FORMAT: FileFormat = FileFormat {
    queries: &[
        queries::LAUNCHES,
        queries::COUNTERS,
        queries::OPERATORS,
        queries::PROGRAM,
        queries::DEVICES,
        queries::LOSSES,
    ],
    write,
};

rows! {
    /// Sums and means of an op, by Operator Profiler's formulas.
    struct OperatorSums {
        op: String,
        measured_count: i64,
        total_duration_ns: Option<f64>,
        dominant_kernel_id: Option<u64>,
        total_dram_bytes_read: Option<i64>,
        total_dram_bytes_written: Option<i64>,
        memory_throughput_pct: Option<f64>,
        dram_throughput_pct: Option<f64>,
        mem_busy_pct: Option<f64>,
        l1_hit_rate: Option<f64>,
        l2_hit_rate: Option<f64>,
        sm_throughput_pct: Option<f64>,
        tensor_core_active_pct: Option<f64>,
        achieved_occupancy: Option<f64>,
        warp_cycles_per_instruction: Option<f64>,
        eligible_cycles_pct: Option<f64>,
        total_executed_instructions: i64,
        total_issued_instructions: i64,
        ipc_active: Option<f64>,
        avg_threads_per_warp: Option<f64>,
        registers_per_thread: Option<i64>,
        dynamic_smem_per_block: Option<i64>,
        local_memory_spills: Option<i64>,
    }
}

/// Counters by launch.
type LaunchCounters = BTreeMap<u64, Map<String, Value>>;

fn write(source: &ExportSource) -> Outcome<Vec<u8>> {
    let launches: Vec<TimelineLaunch> = source.read(queries::LAUNCHES)?;
    let operators: Vec<OperatorSums> = source.read(queries::OPERATORS)?;
    let mut counters = LaunchCounters::new();
    for row in source.read::<TimelineCounter>(queries::COUNTERS)? {
        counters.entry(row.kernel_id).or_default().insert(row.metric, plain(row.value));
    }
    let mut by_op: BTreeMap<Option<&str>, Vec<Value>> = BTreeMap::new();
    let none = Map::new();
    let mut unmeasured = 0_usize;
    for launch in &launches {
        match kernel(launch, counters.get(&launch.kernel_id).unwrap_or(&none)) {
            Some(kernel) => by_op.entry(launch.op.as_deref()).or_default().push(kernel),
            None => unmeasured += 1,
        }
    }
    if by_op.is_empty() {
        return Err(CommandFailure::message(QUERY, "the capture has no kernels with a measured duration")
            .hint("record a timeline, or measure launches with `stallmap-record replay`".to_owned()));
    }
    let unattributed = by_op.remove(&None).unwrap_or_default();
    let described = operators
        .iter()
        .filter_map(|operator| Some(described(operator, &by_op.remove(&Some(operator.op.as_str()))?)));
    let described: Vec<Value> = described.collect();
    document(&json!({
        "schema_version": "1.0",
        "capture_metadata": metadata(source)?,
        "operators": described,
        "unattributed_kernels": unattributed,
        "warnings": warnings(source, &launches, unmeasured)?,
    }))
}

fn warnings(source: &ExportSource, launches: &[TimelineLaunch], unmeasured: usize) -> Outcome<Vec<String>> {
    let processes: Vec<TimelineProcess> = source.read(queries::PROGRAM)?;
    let mut warnings = vec![format!("times of kernels: {}", time_source(launches, &processes))];
    if unmeasured > 0 {
        warnings.push(format!("kernels without a measured duration, left out: {unmeasured}"));
    }
    let losses: Vec<TimelineLoss> = source.read(queries::LOSSES)?;
    warnings.extend(
        losses.iter().map(|loss| format!("lost: {} of {}, {}", loss.lost_count, loss.kind, loss.reason)),
    );
    Ok(warnings)
}

fn metadata(source: &ExportSource) -> Outcome<Value> {
    let process: Option<TimelineProcess> = source.first(queries::PROGRAM)?;
    let device: Option<TimelineDevice> = source.first(queries::DEVICES)?;
    let process = process.as_ref();
    Ok(json!({
        "model_name": process.map_or("", |process| process.program.as_str()),
        "torch_version": process.and_then(|process| process.torch_version.as_deref()).unwrap_or(""),
        "cuda_version": process.and_then(|process| process.cuda_version).map(|version| format!("{}.{}", version / 1000, version % 1000 / 10)),
        "compile_mode": "recorded",
        "nsys_report_path": null,
        "ncu_report_path": null,
        "capture_timestamp_utc": process.map_or_else(String::new, |process| timestamp(process.started_ns)),
        "device_name": device.map(|device| device.name),
    }))
}

/// A time as ISO 8601 in UTC, with seconds.
fn timestamp(ns: i64) -> String {
    let seconds = ns.div_euclid(1_000_000_000);
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, day) = date(days);
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", second / 3600, second / 60 % 60, second % 60)
}

/// The date of a day since 1970, in the Gregorian calendar. Years begin in March, which puts the leap day last.
fn date(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + 400 * era + i64::from(month <= 2);
    (year, month, day_of_year - (153 * shifted + 2) / 5 + 1)
}

/// A value as ncu prints it: whole numbers without a fraction.
#[expect(clippy::cast_possible_truncation, reason = "the value is whole and below 2^53")]
fn plain(value: f64) -> Value {
    if value.fract() == 0.0 && value.abs() < 9e15 { json!(value as i64) } else { json!(value) }
}

/// A kernel with its counters, if its duration was measured.
fn kernel(launch: &TimelineLaunch, metrics: &Map<String, Value>) -> Option<Value> {
    let (begin, duration) = launch.begin_ns().zip(launch.duration())?;
    let is_attributed = launch.op.is_some();
    Some(json!({
        "kernel_id": name(launch.kernel_id),
        "kernel_name": launch.name(),
        "demangled_name": launch.kernel,
        "stream_id": launch.stream_id.unwrap_or(0),
        "device_id": launch.device_id,
        "start_ns": begin,
        "end_ns": begin + duration,
        "duration_ns": duration,
        "grid_dim": launch.grid(),
        "block_dim": launch.block(),
        "metrics": { "raw": metrics },
        "attribution_method": if is_attributed { "torch_profiler" } else { "unattributed" },
        "confidence": if is_attributed { "high" } else { "unattributed" },
        "nvtx_range": null,
    }))
}

fn name(kernel_id: u64) -> String {
    format!("k_{kernel_id:05}")
}

fn described(operator: &OperatorSums, kernels: &[Value]) -> Value {
    json!({
        "operator_id": format!("{}_0", operator.op),
        "operator_name": operator.op,
        "call_index": 0,
        "is_fused": false,
        "fused_with": [],
        "nvtx_range": null,
        "kernels": kernels,
        "aggregated": {
            "total_duration_ns": operator.total_duration_ns.map(plain),
            "kernel_count": operator.measured_count,
            "dominant_kernel_id": operator.dominant_kernel_id.map(name),
            "total_dram_bytes_read": operator.total_dram_bytes_read,
            "total_dram_bytes_written": operator.total_dram_bytes_written,
            "memory_throughput_pct": operator.memory_throughput_pct,
            "dram_throughput_pct": operator.dram_throughput_pct,
            "mem_busy_pct": operator.mem_busy_pct,
            "l1_hit_rate": operator.l1_hit_rate,
            "l2_hit_rate": operator.l2_hit_rate,
            "sm_throughput_pct": operator.sm_throughput_pct,
            "tensor_core_active_pct": operator.tensor_core_active_pct,
            "achieved_occupancy": operator.achieved_occupancy,
            "warp_cycles_per_instruction": operator.warp_cycles_per_instruction,
            "eligible_cycles_pct": operator.eligible_cycles_pct,
            "total_executed_instructions": operator.total_executed_instructions,
            "total_issued_instructions": operator.total_issued_instructions,
            "ipc_active": operator.ipc_active,
            "avg_threads_per_warp": operator.avg_threads_per_warp,
            "registers_per_thread": operator.registers_per_thread,
            "dynamic_smem_per_block": operator.dynamic_smem_per_block,
            "local_memory_spills": operator.local_memory_spills,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_dates() {
        assert_eq!(timestamp(0), "1970-01-01T00:00:00Z");
        assert_eq!(timestamp(1_700_000_000_000_000_000), "2023-11-14T22:13:20Z");
        assert_eq!(timestamp(951_782_400_000_000_000), "2000-02-29T00:00:00Z");
        assert_eq!(timestamp(-1), "1969-12-31T23:59:59Z");
    }
}
