//! A capture for hardware counters: numbers that can be checked by hand.
//!
//! Five launches of two kernels. Two runs counted, an old one and a new one, and one run replayed without an instrument.
//!
//! | launch | kernel | op | data |
//! |---|---|---|---|
//! | 0 | gemm | aten::mm, first call | all except thread operations, twice. A third time it left other memory |
//! | 1 | axpy | aten::mm, first call | all. The old run counted it too |
//! | 2 | gemm | aten::mm, second call | times only |
//! | 3 | axpy | aten::add | time, bytes, tensor cores that did nothing |
//! | 4 | axpy | none | time and rates, one of them without a value |

#[path = "counters/random.rs"]
mod random;

use std::path::Path;

use stallmap_schema::hash;
use stallmap_schema::id::{FunctionId, KernelId, ModuleId, OpId, RunId};
use stallmap_schema::tables::code::Function;
use stallmap_schema::tables::launch::Launch;
use stallmap_schema::tables::replay::{Counter, Replay};
use stallmap_schema::tables::run::Run;
use stallmap_schema::tables::tensor::Op;
use stallmap_schema::word::{Instrument, OpKind, Phase, ReplayResult};
use stallmap_write::{CaptureForm, CaptureWriter};

const ACCESSES: RunId = RunId(1);
const NATIVE: RunId = RunId(2);
const OLD: RunId = RunId(3);
const NEW: RunId = RunId(4);

/// Values of one repeat.
type RepeatValues = &'static [(&'static str, f64)];

const GEMM: RepeatValues = &[
    ("dram__bytes_read.sum", 3000.0),
    ("dram__bytes_write.sum", 1000.0),
    ("dram__bytes.sum.peak_sustained_elapsed.per_second", 8e9),
    ("gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed", 50.0),
    ("lts__t_sectors_lookup_hit.sum", 75.0),
    ("lts__t_sectors_lookup_miss.sum", 25.0),
    ("lts__t_sector_hit_rate.pct", 75.0),
    ("lts__t_request_hit_rate.pct", 70.0),
    ("l1tex__t_sectors.sum", 200.0),
    ("l1tex__t_sectors_lookup_hit.sum", 50.0),
    ("l1tex__t_sector_hit_rate.pct", 25.0),
    ("l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum", 160.0),
    ("l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum", 40.0),
    ("l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum", 40.0),
    ("l1tex__t_requests_pipe_lsu_mem_global_op_st.sum", 20.0),
    ("sm__warps_active.sum", 64_000.0),
    ("sm__warps_active.avg.peak_sustained", 64.0),
    ("sm__warps_active.avg.pct_of_peak_sustained_active", 50.0),
    ("sm__cycles_active.sum", 2000.0),
    ("sm__cycles_elapsed.sum", 2500.0),
    ("smsp__cycles_active.sum", 8000.0),
    ("smsp__pipe_tensor_cycles_active.sum", 6000.0),
    ("smsp__issue_active.sum", 2000.0),
    ("smsp__inst_executed.sum", 2000.0),
    ("smsp__inst_issued.sum", 2500.0),
    ("smsp__thread_inst_executed.sum", 64_000.0),
    ("sm__ops_path_tensor_src_bf16_dst_fp32.sum", 3_200_000.0),
    // For sparse products.
    ("sm__ops_path_tensor_src_bf16_dst_fp32.sum.peak_sustained_elapsed.per_second", 8e12),
    ("sm__ops_path_tensor_src_fp8.sum", 0.0),
    ("sm__ops_path_tensor_src_fp8.sum.peak_sustained_elapsed.per_second", 16e12),
    // Not operations on floating-point numbers.
    ("sm__ops_path_tensor_src_int8.sum", 77.0),
];

const AXPY: RepeatValues = &[
    ("gpu__time_duration.sum", 3000.0),
    ("dram__bytes_read.sum", 9000.0),
    ("dram__bytes_write.sum", 9000.0),
    ("dram__bytes.sum.peak_sustained_elapsed.per_second", 8e9),
    ("gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed", 75.0),
    ("lts__t_sectors_lookup_hit.sum", 10.0),
    ("lts__t_sectors_lookup_miss.sum", 90.0),
    ("lts__t_sector_hit_rate.pct", 10.0),
    ("l1tex__t_sectors.sum", 600.0),
    ("l1tex__t_sectors_lookup_hit.sum", 0.0),
    ("l1tex__t_sector_hit_rate.pct", 0.0),
    ("l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum", 800.0),
    ("l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum", 100.0),
    ("l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum", 400.0),
    ("l1tex__t_requests_pipe_lsu_mem_global_op_st.sum", 100.0),
    ("l1tex__t_output_wavefronts_pipe_lsu_mem_local.sum", 12.0),
    ("sm__warps_active.sum", 24_000.0),
    ("sm__warps_active.avg.peak_sustained", 64.0),
    ("sm__warps_active.avg.pct_of_peak_sustained_active", 6.25),
    ("sm__cycles_active.sum", 6000.0),
    ("sm__cycles_elapsed.sum", 7500.0),
    ("smsp__cycles_active.sum", 24_000.0),
    ("smsp__pipe_tensor_cycles_active.sum", 0.0),
    ("smsp__issue_active.sum", 6000.0),
    ("smsp__inst_executed.sum", 6000.0),
    ("smsp__inst_issued.sum", 6000.0),
    ("smsp__thread_inst_executed.sum", 96_000.0),
    ("sm__ops_path_tensor_src_bf16_dst_fp32.sum", 0.0),
    ("smsp__sass_thread_inst_executed_op_fadd_pred_on.sum", 500.0),
    ("smsp__sass_thread_inst_executed_op_fmul_pred_on.sum", 500.0),
    ("smsp__sass_thread_inst_executed_op_ffma_pred_on.sum", 1500.0),
    ("smsp__sass_thread_inst_executed_op_hadd_pred_on.sum", 0.0),
    ("smsp__sass_thread_inst_executed_op_hmul_pred_on.sum", 0.0),
    ("smsp__sass_thread_inst_executed_op_hfma_pred_on.sum", 0.0),
    ("smsp__sass_thread_inst_executed_op_dadd_pred_on.sum", 0.0),
    ("smsp__sass_thread_inst_executed_op_dmul_pred_on.sum", 0.0),
    ("smsp__sass_thread_inst_executed_op_dfma_pred_on.sum", 0.0),
    ("sm__sass_thread_inst_executed_op_ffma_pred_on.sum.peak_sustained_elapsed.per_second", 1e12),
];

const ADD: RepeatValues = &[
    ("gpu__time_duration.sum", 2000.0),
    ("dram__bytes_op_read.sum", 8000.0),
    ("dram__bytes_op_write.sum", 0.0),
    ("dram__bytes.sum.peak_sustained_elapsed.per_second", 8e9),
    ("sm__ops_path_tensor_src_bf16_dst_fp32.sum", 0.0),
];

const RATES: RepeatValues = &[
    ("gpu__time_duration.sum", 500.0),
    ("l1tex__t_sector_hit_rate.pct", 40.0),
    ("lts__t_sector_hit_rate.pct", f64::NAN),
    ("sm__warps_active.avg.pct_of_peak_sustained_active", 50.0),
    ("smsp__issue_active.avg.pct_of_peak_sustained_active", 10.0),
    ("smsp__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active", 0.0),
    ("sm__throughput.avg.pct_of_peak_sustained_elapsed", 12.5),
];

/// Writes the capture.
pub(crate) fn write(output: &Path) {
    let launches =
        [("gemm", Some(1)), ("axpy", Some(1)), ("gemm", Some(2)), ("axpy", Some(3)), ("axpy", None)];
    let ops = [(1, "aten::mm"), (2, "aten::mm"), (3, "aten::add")];
    write_rows(output, &launches, &ops, (replays(), counters()));
}

/// Writes a capture of launches (kernel, op), ops (number, name), replays and counters.
fn write_rows(
    output: &Path,
    launches: &[(&str, Option<u64>)],
    ops: &[(u64, &str)],
    (replays, counters): (Vec<Replay>, Vec<Counter>),
) {
    let mut writer = CaptureWriter::create(output, CaptureForm::File).unwrap();
    let instruments = [Instrument::Accesses, Instrument::Native, Instrument::Counters, Instrument::Counters];
    writer
        .append_rows((1..).zip(instruments).map(|(number, instrument)| run(RunId(number), instrument)))
        .unwrap();
    let mut functions = [function("gemm"), function("axpy")];
    functions.sort_by_key(|function| function.function_id);
    writer.append_rows(functions).unwrap();
    writer
        .append_rows(launches.iter().zip(0..).map(|((name, op), ordinal)| launch(ordinal, name, *op)))
        .unwrap();
    writer.append_rows(ops.iter().map(|(number, name)| op(*number, name))).unwrap();
    writer.append_rows(replays).unwrap();
    writer.append_rows(counters).unwrap();
    writer.finish().unwrap();
}

fn replay(
    (run_id, ordinal): (RunId, u64),
    launch: u64,
    repeat: u32,
    result: ReplayResult,
    duration_ns: Option<u64>,
) -> Replay {
    Replay {
        run_id,
        ordinal,
        kernel_id: KernelId(launch),
        repeat,
        result,
        checked_page_count: 1,
        different_page_count: u64::from(result != ReplayResult::Verified),
        unstable_page_count: u64::from(result == ReplayResult::Unstable),
        is_translated: false,
        duration_ns,
        detail: None,
    }
}

fn replays() -> Vec<Replay> {
    use ReplayResult::{Different, Unstable, Verified};
    vec![
        replay((NATIVE, 0), 0, 0, Verified, Some(790)),
        replay((NATIVE, 1), 0, 1, Verified, Some(810)),
        replay((NATIVE, 2), 2, 0, Verified, Some(700)),
        replay((NATIVE, 3), 2, 1, Different, Some(99_999)),
        replay((OLD, 0), 1, 0, Verified, None),
        replay((NEW, 0), 0, 0, Verified, None),
        replay((NEW, 1), 0, 1, Verified, None),
        replay((NEW, 2), 0, 2, Different, None),
        replay((NEW, 3), 1, 0, Verified, None),
        replay((NEW, 4), 3, 0, Verified, None),
        replay((NEW, 5), 4, 0, Unstable, None),
    ]
}

fn counters() -> Vec<Counter> {
    let mut rows = Vec::new();
    let mut add = |run_id, launch, repeat, values: &[(&str, f64)]| {
        rows.extend(values.iter().map(|(metric, value)| counter(run_id, launch, repeat, (metric, *value))));
    };
    for (repeat, duration_ns) in [(0, 900.0), (1, 1100.0), (2, 9999.0)] {
        add(NEW, 0, repeat, &[("gpu__time_duration.sum", duration_ns)]);
        add(NEW, 0, repeat, GEMM);
    }
    add(OLD, 1, 0, &[("gpu__time_duration.sum", 1234.0), ("smsp__inst_executed_pipe_alu.sum", 55.0)]);
    add(NEW, 1, 0, AXPY);
    add(NEW, 3, 0, ADD);
    add(NEW, 4, 0, RATES);
    sort(&mut rows);
    rows
}

fn counter(run_id: RunId, launch: u64, repeat: u32, (metric, value): (&str, f64)) -> Counter {
    Counter {
        run_id,
        kernel_id: KernelId(launch),
        repeat,
        metric: metric.to_owned(),
        value: Some(value).filter(|value| value.is_finite()),
        unit: unit(metric).to_owned(),
    }
}

fn sort(rows: &mut [Counter]) {
    let key = |row: &Counter| (row.kernel_id, row.metric.clone(), row.run_id, row.repeat);
    rows.sort_by_key(key);
}

fn unit(metric: &str) -> &'static str {
    match metric {
        "gpu__time_duration.sum" => "nanosecond",
        _ if metric.contains("pct") => "percent",
        _ if metric.ends_with("per_second") => "1/second",
        _ if metric.starts_with("dram__bytes") => "byte",
        _ => "",
    }
}

fn function_id(name: &str) -> FunctionId {
    hash::function_id(ModuleId(1), name)
}

fn function(name: &str) -> Function {
    Function {
        function_id: function_id(name),
        module_id: ModuleId(1),
        name: name.to_owned(),
        demangled_name: name.to_owned(),
        is_kernel: true,
        code_bytes: None,
        memory_instruction_count: None,
        uncovered_instruction_count: None,
    }
}

fn run(run_id: RunId, instrument: Instrument) -> Run {
    Run {
        run_id,
        instrument,
        reference_run_id: ACCESSES,
        program: "program".to_owned(),
        arguments: "[]".to_owned(),
        ..Run::default()
    }
}

fn launch(ordinal: u64, name: &str, op: Option<u64>) -> Launch {
    Launch {
        kernel_id: KernelId(ordinal),
        run_id: ACCESSES,
        function_id: function_id(name),
        ordinal,
        grid_x: 1,
        grid_y: 1,
        grid_z: 1,
        block_x: 32,
        block_y: 1,
        block_z: 1,
        dynamic_shared_bytes: Some(if name == "gemm" { 4096 } else { 0 }),
        register_count: Some(if name == "gemm" { 168 } else { 32 }),
        op_id: op.map(OpId),
        ..Launch::default()
    }
}

fn op(number: u64, name: &str) -> Op {
    Op {
        op_id: OpId(number),
        run_id: ACCESSES,
        kind: OpKind::Torch,
        name: name.to_owned(),
        phase: Phase::Forward,
        ..Op::default()
    }
}
