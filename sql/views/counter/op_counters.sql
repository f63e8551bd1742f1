-- Hardware counters of the ops of one name, with the names and formulas of Operator Profiler, for comparison.
--
-- Sums, time-weighted means over launches that have the counter, and maxima. A mean of rates differs from the overall
-- rate: see `op_counters_exact`. Times are those of `launch_duration`. Values are not clamped: a ratio of counters from
-- two passes can exceed 100 percent for tiny launches, as in ncu.
CREATE VIEW op_counters (
  -- The op's name. Null for launches outside any op.
  op,
  -- Launches, including those without counters.
  kernel_count,
  -- Launches with counters.
  counted_kernel_count,
  -- Their time, overlaps counted twice, nanoseconds.
  total_duration_ns,
  -- The longest launch, the first if several are equal.
  dominant_kernel_id,
  -- Bytes read from DRAM.
  total_dram_bytes_read,
  -- Bytes written to DRAM.
  total_dram_bytes_written,
  -- Throughput of DRAM, percent of its peak. The name is that of Operator Profiler.
  memory_throughput_pct,
  -- The same from the unit of DRAM.
  dram_throughput_pct,
  -- Throughput of L1, percent of its peak.
  mem_busy_pct,
  -- Hits of L1, percent.
  l1_hit_rate,
  -- Hits of L2, percent: of requests, or of sectors if requests were not measured.
  l2_hit_rate,
  -- Throughput of the multiprocessors, percent of their peak.
  sm_throughput_pct,
  -- Cycles in which tensor cores worked, percent.
  tensor_core_active_pct,
  -- Occupancy, percent.
  achieved_occupancy,
  -- Cycles of a warp per instruction that it issued.
  warp_cycles_per_instruction,
  -- Cycles in which an instruction was issued, percent.
  eligible_cycles_pct,
  -- Instructions executed; 0 where not measured.
  total_executed_instructions,
  -- Instructions issued; 0 where not measured.
  total_issued_instructions,
  -- Instructions executed per active cycle of a scheduler, not of a multiprocessor.
  ipc_active,
  -- Threads of an executed instruction.
  avg_threads_per_warp,
  -- Maximum of registers per thread.
  registers_per_thread,
  -- Maximum of dynamic shared memory per block, bytes.
  dynamic_smem_per_block,
  -- Wavefronts of local memory, including those that are not spills.
  local_memory_spills
) AS
WITH pivot AS (
  SELECT
    kernel_id,
    max(CASE WHEN metric = 'gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed' THEN value END)
      AS memory_throughput_pct,
    max(CASE WHEN metric = 'dram__throughput.avg.pct_of_peak_sustained_elapsed' THEN value END) AS dram_throughput_pct,
    max(CASE WHEN metric = 'l1tex__throughput.avg.pct_of_peak_sustained_active' THEN value END) AS mem_busy_pct,
    max(CASE WHEN metric = 'l1tex__t_sector_hit_rate.pct' THEN value END) AS l1_hit_rate,
    coalesce(
      max(CASE WHEN metric = 'lts__t_request_hit_rate.pct' THEN value END),
      max(CASE WHEN metric = 'lts__t_sector_hit_rate.pct' THEN value END)
    ) AS l2_hit_rate,
    max(CASE WHEN metric = 'sm__throughput.avg.pct_of_peak_sustained_elapsed' THEN value END) AS sm_throughput_pct,
    max(CASE WHEN metric = 'smsp__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active' THEN value END)
      AS tensor_core_active_pct,
    max(CASE WHEN metric = 'sm__warps_active.avg.pct_of_peak_sustained_active' THEN value END) AS achieved_occupancy,
    max(CASE WHEN metric = 'smsp__average_warp_latency_per_inst_issued.ratio' THEN value END)
      AS warp_cycles_per_instruction,
    max(CASE WHEN metric = 'smsp__issue_active.avg.pct_of_peak_sustained_active' THEN value END)
      AS eligible_cycles_pct,
    max(CASE WHEN metric = 'smsp__inst_executed.avg.per_cycle_active' THEN value END) AS ipc_active,
    max(CASE WHEN metric = 'smsp__average_thread_inst_executed_per_inst_executed.ratio' THEN value END)
      AS avg_threads_per_warp,
    coalesce(
      max(CASE WHEN metric = 'dram__bytes_read.sum' THEN value END),
      max(CASE WHEN metric = 'dram__bytes_op_read.sum' THEN value END)
    ) AS total_dram_bytes_read,
    coalesce(
      max(CASE WHEN metric = 'dram__bytes_write.sum' THEN value END),
      max(CASE WHEN metric = 'dram__bytes_op_write.sum' THEN value END)
    ) AS total_dram_bytes_written,
    max(CASE WHEN metric = 'smsp__inst_executed.sum' THEN value END) AS total_executed_instructions,
    max(CASE WHEN metric = 'smsp__inst_issued.sum' THEN value END) AS total_issued_instructions,
    max(CASE WHEN metric = 'l1tex__t_output_wavefronts_pipe_lsu_mem_local.sum' THEN value END) AS local_memory_spills
  FROM launch_counter
  GROUP BY kernel_id
), work AS (
  SELECT
    l.kernel_id AS launch_id, o.name AS op, l.register_count, l.dynamic_shared_bytes, d.duration_ns AS ns, p.*
  FROM launch l
  LEFT JOIN op o ON o.op_id = l.op_id
  LEFT JOIN pivot p ON p.kernel_id = l.kernel_id
  LEFT JOIN launch_duration d ON d.kernel_id = l.kernel_id
)
SELECT
  op,
  count(*),
  count(kernel_id),
  sum(ns),
  CASE WHEN max(ns) IS NOT NULL THEN first_value(launch_id ORDER BY ns DESC NULLS LAST, launch_id) END,
  CAST(trunc(sum(total_dram_bytes_read)) AS BIGINT),
  CAST(trunc(sum(total_dram_bytes_written)) AS BIGINT),
  sum(memory_throughput_pct * ns) / nullif(sum(ns) FILTER (WHERE memory_throughput_pct IS NOT NULL), 0.0),
  sum(dram_throughput_pct * ns) / nullif(sum(ns) FILTER (WHERE dram_throughput_pct IS NOT NULL), 0.0),
  sum(mem_busy_pct * ns) / nullif(sum(ns) FILTER (WHERE mem_busy_pct IS NOT NULL), 0.0),
  sum(l1_hit_rate * ns) / nullif(sum(ns) FILTER (WHERE l1_hit_rate IS NOT NULL), 0.0),
  sum(l2_hit_rate * ns) / nullif(sum(ns) FILTER (WHERE l2_hit_rate IS NOT NULL), 0.0),
  sum(sm_throughput_pct * ns) / nullif(sum(ns) FILTER (WHERE sm_throughput_pct IS NOT NULL), 0.0),
  sum(tensor_core_active_pct * ns) / nullif(sum(ns) FILTER (WHERE tensor_core_active_pct IS NOT NULL), 0.0),
  sum(achieved_occupancy * ns) / nullif(sum(ns) FILTER (WHERE achieved_occupancy IS NOT NULL), 0.0),
  sum(warp_cycles_per_instruction * ns) / nullif(sum(ns) FILTER (WHERE warp_cycles_per_instruction IS NOT NULL), 0.0),
  sum(eligible_cycles_pct * ns) / nullif(sum(ns) FILTER (WHERE eligible_cycles_pct IS NOT NULL), 0.0),
  coalesce(CAST(trunc(sum(total_executed_instructions)) AS BIGINT), 0),
  coalesce(CAST(trunc(sum(total_issued_instructions)) AS BIGINT), 0),
  sum(ipc_active * ns) / nullif(sum(ns) FILTER (WHERE ipc_active IS NOT NULL), 0.0),
  sum(avg_threads_per_warp * ns) / nullif(sum(ns) FILTER (WHERE avg_threads_per_warp IS NOT NULL), 0.0),
  max(register_count),
  max(dynamic_shared_bytes),
  CAST(trunc(sum(local_memory_spills)) AS BIGINT)
FROM work
GROUP BY op
