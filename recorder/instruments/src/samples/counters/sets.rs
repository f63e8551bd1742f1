//! Named sets of metrics, with ncu's names.
//!
//! A set holds names for several generations of chips. Measuring a chip leaves out the names that it lacks. Views of
//! counters compute with sums, so a set holds each ratio together with its sums.

/// A named set of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetricSet {
    /// Its name.
    pub name: &'static str,
    /// Description of the set.
    pub doc: &'static str,
    /// Its metrics.
    pub metrics: &'static [&'static str],
}

/// Every set.
pub const SETS: &[MetricSet] = &[SPEED, MEMORY, OCCUPANCY, TENSOR, INSTRUCTIONS, ISSUE, SASS];

/// The sets that are measured where the user names none: all but those of patched code, which cost the most.
pub fn default() -> Vec<String> {
    let chosen = SETS.iter().filter(|set| set.name != SASS.name);
    chosen.flat_map(|set| set.metrics).map(|metric| (*metric).to_owned()).collect()
}

/// The metrics of names, each once, in order. A name is a set or a metric. Without names the default.
pub fn expand(names: &[String]) -> Vec<String> {
    if names.is_empty() {
        return default();
    }
    let mut metrics: Vec<String> = Vec::new();
    for name in names {
        match SETS.iter().find(|set| set.name == name) {
            Some(set) => metrics.extend(set.metrics.iter().map(|metric| (*metric).to_owned())),
            None => metrics.push(name.clone()),
        }
    }
    let mut seen = std::collections::BTreeSet::new();
    metrics.retain(|metric| seen.insert(metric.clone()));
    metrics
}

/// True if a set holds a metric: a chip may then lack it without an error.
pub fn hold(metric: &str) -> bool {
    SETS.iter().any(|set| set.metrics.contains(&metric))
}

const SPEED: MetricSet = MetricSet {
    name: "speed",
    doc: "how long the launch takes, and how near it comes to the peaks of each part of the chip",
    metrics: &[
        "gpu__time_duration.sum",
        "sm__throughput.avg.pct_of_peak_sustained_elapsed",
        "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",
        "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
        "dram__throughput.avg.pct_of_peak_sustained_elapsed",
        "l1tex__throughput.avg.pct_of_peak_sustained_active",
        "lts__throughput.avg.pct_of_peak_sustained_elapsed",
        "sm__cycles_elapsed.max",
        "sm__cycles_elapsed.sum",
        "sm__cycles_elapsed.avg.per_second",
        "sm__cycles_active.sum",
        "smsp__cycles_active.sum",
        "dram__bytes.sum.peak_sustained_elapsed.per_second",
    ],
};

const MEMORY: MetricSet = MetricSet {
    name: "memory",
    doc: "bytes of DRAM, hits of L2 and L1, sectors of each request, shared and local memory, TMA",
    metrics: &[
        "dram__bytes_read.sum",
        "dram__bytes_write.sum",
        "dram__sectors_read.sum",
        "dram__sectors_write.sum",
        // As the two first, on chips of 2025 and later.
        "dram__bytes_op_read.sum",
        "dram__bytes_op_write.sum",
        "lts__t_sectors.sum",
        "lts__t_sectors_lookup_hit.sum",
        "lts__t_sectors_lookup_miss.sum",
        "lts__t_sectors_op_read.sum",
        "lts__t_sectors_op_write.sum",
        "lts__t_sector_hit_rate.pct",
        "lts__t_requests.sum",
        "lts__t_requests_lookup_hit.sum",
        "lts__t_requests_lookup_miss.sum",
        "lts__t_request_hit_rate.pct",
        "l1tex__t_sectors.sum",
        "l1tex__t_sectors_lookup_hit.sum",
        "l1tex__t_sector_hit_rate.pct",
        "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
        "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",
        "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio",
        "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
        "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum",
        "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_st.ratio",
        "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum",
        "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",
        "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum",
        "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum",
        "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
        "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
        "l1tex__t_output_wavefronts_pipe_lsu_mem_local.sum",
        "l1tex__t_sectors_pipe_lsu_mem_local_op_ld.sum",
        "l1tex__t_sectors_pipe_lsu_mem_local_op_st.sum",
        "l1tex__m_xbar2l1tex_read_bytes_mem_global_op_tma_ld.sum",
        "l1tex__m_l1tex2xbar_write_bytes_mem_global_op_tma_st.sum",
    ],
};

const OCCUPANCY: MetricSet = MetricSet {
    name: "occupancy",
    doc: "warps on the multiprocessors, of how many that fit, and how many of them could issue",
    metrics: &[
        "sm__warps_active.avg.pct_of_peak_sustained_active",
        "sm__warps_active.sum",
        "sm__warps_active.avg.peak_sustained",
        "sm__warps_active.avg.per_cycle_active",
        "sm__warps_launched.sum",
        "sm__ctas_launched.sum",
        "smsp__warps_active.avg.per_cycle_active",
        "smsp__warps_eligible.avg.per_cycle_active",
    ],
};

const TENSOR: MetricSet = MetricSet {
    name: "tensor",
    doc: "work of the tensor cores: busy cycles, instructions, operations by the type of their operands, and the peaks",
    metrics: &[
        "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
        "smsp__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
        "smsp__pipe_tensor_cycles_active.sum",
        "sm__inst_executed_pipe_tensor.sum",
        "sm__inst_executed_pipe_tensor_op_hmma.sum",
        "sm__inst_executed_pipe_tensor_op_gmma.sum",
        "sm__inst_executed_pipe_tensor_op_imma.sum",
        "sm__inst_executed_pipe_tensor_op_dmma.sum",
        "sm__ops_path_tensor_src_bf16_dst_fp32.sum",
        "sm__ops_path_tensor_src_bf16_dst_fp32.sum.peak_sustained_elapsed.per_second",
        "sm__ops_path_tensor_src_tf32_dst_fp32.sum",
        "sm__ops_path_tensor_src_tf32_dst_fp32.sum.peak_sustained_elapsed.per_second",
        "sm__ops_path_tensor_src_fp64.sum",
        "sm__ops_path_tensor_src_fp64.sum.peak_sustained_elapsed.per_second",
        "sm__ops_path_tensor_src_int8.sum",
        "sm__ops_path_tensor_src_int8.sum.peak_sustained_elapsed.per_second",
        // Each chip has one of the spellings for a type.
        "sm__ops_path_tensor_src_fp16.sum",
        "sm__ops_path_tensor_src_fp16.sum.peak_sustained_elapsed.per_second",
        "sm__ops_path_tensor_src_fp16_dst_fp16.sum",
        "sm__ops_path_tensor_src_fp16_dst_fp16.sum.peak_sustained_elapsed.per_second",
        "sm__ops_path_tensor_src_fp16_dst_fp32.sum",
        "sm__ops_path_tensor_src_fp16_dst_fp32.sum.peak_sustained_elapsed.per_second",
        "sm__ops_path_tensor_src_fp8.sum",
        "sm__ops_path_tensor_src_fp8.sum.peak_sustained_elapsed.per_second",
        "sm__ops_path_tensor_src_fp8_dst_fp16.sum",
        "sm__ops_path_tensor_src_fp8_dst_fp16.sum.peak_sustained_elapsed.per_second",
        "sm__ops_path_tensor_src_fp8_dst_fp32.sum",
        "sm__ops_path_tensor_src_fp8_dst_fp32.sum.peak_sustained_elapsed.per_second",
        "sm__ops_path_tensor_src_fp4_fp6_fp8_dst_fp16.sum",
        "sm__ops_path_tensor_src_fp4_fp6_fp8_dst_fp16.sum.peak_sustained_elapsed.per_second",
        "sm__ops_path_tensor_src_fp4_fp6_fp8_dst_fp32.sum",
        "sm__ops_path_tensor_src_fp4_fp6_fp8_dst_fp32.sum.peak_sustained_elapsed.per_second",
    ],
};

const INSTRUCTIONS: MetricSet = MetricSet {
    name: "instructions",
    doc: "instructions executed and issued, threads of each, and the pipes that they went to",
    metrics: &[
        "smsp__inst_executed.sum",
        "smsp__inst_issued.sum",
        "smsp__inst_executed.avg.per_cycle_active",
        "smsp__thread_inst_executed.sum",
        "smsp__thread_inst_executed_pred_on.sum",
        "smsp__thread_inst_executed_per_inst_executed.ratio",
        "smsp__average_thread_inst_executed_per_inst_executed.ratio",
        "smsp__inst_executed_pipe_alu.sum",
        "smsp__inst_executed_pipe_fma.sum",
        "smsp__inst_executed_pipe_fp16.sum",
        "smsp__inst_executed_pipe_fp64.sum",
        "smsp__inst_executed_pipe_lsu.sum",
        "smsp__inst_executed_pipe_tma.sum",
        "smsp__inst_executed_pipe_uniform.sum",
        "smsp__inst_executed_pipe_xu.sum",
    ],
};

const ISSUE: MetricSet = MetricSet {
    name: "issue",
    doc: "cycles that issued an instruction, and stall reasons of the other cycles",
    metrics: &[
        "smsp__issue_active.avg.pct_of_peak_sustained_active",
        "smsp__issue_active.sum",
        "smsp__average_warp_latency_per_inst_issued.ratio",
        "smsp__average_warps_active_per_issue_active.ratio",
        "smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio",
        "smsp__average_warps_issue_stalled_branch_resolving_per_issue_active.ratio",
        "smsp__average_warps_issue_stalled_dispatch_stall_per_issue_active.ratio",
        "smsp__average_warps_issue_stalled_drain_per_issue_active.ratio",
        "smsp__average_warps_issue_stalled_gmma_per_issue_active.ratio",
        "smsp__average_warps_issue_stalled_imc_miss_per_issue_active.ratio",
        "smsp__average_warps_issue_stalled_lg_throttle_per_issue_active.ratio",
        "smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio",
        "smsp__average_warps_issue_stalled_math_pipe_throttle_per_issue_active.ratio",
        "smsp__average_warps_issue_stalled_membar_per_issue_active.ratio",
        "smsp__average_warps_issue_stalled_mio_throttle_per_issue_active.ratio",
        "smsp__average_warps_issue_stalled_misc_per_issue_active.ratio",
        "smsp__average_warps_issue_stalled_no_instruction_per_issue_active.ratio",
        "smsp__average_warps_issue_stalled_not_selected_per_issue_active.ratio",
        "smsp__average_warps_issue_stalled_selected_per_issue_active.ratio",
        "smsp__average_warps_issue_stalled_short_scoreboard_per_issue_active.ratio",
        "smsp__average_warps_issue_stalled_sleeping_per_issue_active.ratio",
        "smsp__average_warps_issue_stalled_tex_throttle_per_issue_active.ratio",
        "smsp__average_warps_issue_stalled_wait_per_issue_active.ratio",
    ],
};

const SASS: MetricSet = MetricSet {
    name: "sass",
    doc: "floating-point and other operations of threads, by kind, counted in patched code",
    metrics: &[
        "smsp__sass_thread_inst_executed_op_fadd_pred_on.sum",
        "smsp__sass_thread_inst_executed_op_fmul_pred_on.sum",
        "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum",
        "smsp__sass_thread_inst_executed_op_hadd_pred_on.sum",
        "smsp__sass_thread_inst_executed_op_hmul_pred_on.sum",
        "smsp__sass_thread_inst_executed_op_hfma_pred_on.sum",
        "smsp__sass_thread_inst_executed_op_dadd_pred_on.sum",
        "smsp__sass_thread_inst_executed_op_dmul_pred_on.sum",
        "smsp__sass_thread_inst_executed_op_dfma_pred_on.sum",
        "smsp__sass_thread_inst_executed_op_fp16_pred_on.sum",
        "smsp__sass_thread_inst_executed_op_fp32_pred_on.sum",
        "smsp__sass_thread_inst_executed_op_fp64_pred_on.sum",
        "smsp__sass_thread_inst_executed_op_integer_pred_on.sum",
        "smsp__sass_thread_inst_executed_op_memory_pred_on.sum",
        "smsp__sass_thread_inst_executed_op_control_pred_on.sum",
        "smsp__sass_thread_inst_executed_op_conversion_pred_on.sum",
        "sm__sass_thread_inst_executed_op_ffma_pred_on.sum.peak_sustained_elapsed.per_second",
        "sm__sass_thread_inst_executed_op_hfma_pred_on.sum.peak_sustained_elapsed.per_second",
        "sm__sass_thread_inst_executed_op_dfma_pred_on.sum.peak_sustained_elapsed.per_second",
    ],
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_metric_is_in_two_sets() {
        let mut seen = std::collections::BTreeSet::new();
        for metric in SETS.iter().flat_map(|set| set.metrics) {
            assert!(seen.insert(metric), "{metric}");
        }
    }

    #[test]
    fn names_of_sets_are_unlike_names_of_metrics() {
        for set in SETS {
            assert!(set.name.bytes().all(|byte| byte.is_ascii_lowercase()), "{}", set.name);
            assert!(!set.metrics.is_empty() && !set.doc.is_empty());
            assert!(set.metrics.iter().all(|metric| metric.contains("__") && metric.contains('.')));
        }
    }

    #[test]
    fn names_expand_to_metrics_once() {
        let names = ["occupancy", "dram__bytes_read.sum", "sm__warps_active.sum", "occupancy"];
        let names: Vec<String> = names.map(str::to_owned).into();
        let metrics = expand(&names);
        assert_eq!(metrics.len(), OCCUPANCY.metrics.len() + 1);
        assert_eq!(metrics.last().map(String::as_str), Some("dram__bytes_read.sum"));
    }

    #[test]
    fn the_default_leaves_patched_code_alone() {
        let metrics = expand(&[]);
        assert!(metrics.iter().all(|metric| !metric.contains("__sass_")));
        let rest: usize = SETS.iter().map(|set| set.metrics.len()).sum();
        assert_eq!(metrics.len(), rest - SASS.metrics.len());
    }

    #[test]
    fn a_metric_is_of_a_set_or_is_not() {
        assert!(hold("dram__bytes_read.sum") && !hold("dram__bytes_read") && !hold("memory"));
    }

    /// The counters of which Operator Profiler makes its aggregates, by names that hardware has.
    #[test]
    fn the_default_has_what_operator_profiler_aggregates() {
        let metrics = default();
        for metric in [
            "dram__bytes_read.sum",
            "dram__bytes_write.sum",
            "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
            "dram__throughput.avg.pct_of_peak_sustained_elapsed",
            "l1tex__throughput.avg.pct_of_peak_sustained_active",
            "l1tex__t_sector_hit_rate.pct",
            "lts__t_request_hit_rate.pct",
            "lts__t_sector_hit_rate.pct",
            "sm__throughput.avg.pct_of_peak_sustained_elapsed",
            "smsp__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
            "sm__warps_active.avg.pct_of_peak_sustained_active",
            "smsp__average_warp_latency_per_inst_issued.ratio",
            "smsp__issue_active.avg.pct_of_peak_sustained_active",
            "smsp__inst_executed.sum",
            "smsp__inst_issued.sum",
            "smsp__inst_executed.avg.per_cycle_active",
            "smsp__average_thread_inst_executed_per_inst_executed.ratio",
            "l1tex__t_output_wavefronts_pipe_lsu_mem_local.sum",
            "gpu__time_duration.sum",
            "sm__cycles_active.sum",
        ] {
            assert!(metrics.iter().any(|name| name == metric), "{metric}");
        }
    }
}
