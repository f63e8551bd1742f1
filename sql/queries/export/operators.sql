-- Aggregated counters of ops
-- One row per name of an op with measured launches: sums and means by Operator Profiler's formulas. Durations are those of
-- the launches: of the timeline, else of a replay.
WITH timed AS (
  SELECT
    kernel_id, end_ns - begin_ns AS ns, row_number() OVER (PARTITION BY kernel_id ORDER BY run_id, begin_ns, activity_id) AS place
  FROM gpu_activity
  WHERE kernel_id IS NOT NULL
), measured AS (
  SELECT x.kernel_id, x.op, round(coalesce(CAST(t.ns AS DOUBLE), d.duration_ns)) AS ns
  FROM launch_context x
  LEFT JOIN timed t ON t.kernel_id = x.kernel_id AND t.place = 1
  LEFT JOIN launch_duration d ON d.kernel_id = x.kernel_id
), summed AS (
  SELECT
    op, count(*) AS measured_count, sum(ns) AS total_duration_ns,
    first_value(kernel_id ORDER BY ns DESC, kernel_id) AS dominant_kernel_id
  FROM measured
  WHERE ns IS NOT NULL
  GROUP BY op
)
SELECT
  o.op, s.measured_count, s.total_duration_ns, s.dominant_kernel_id, o.total_dram_bytes_read,
  o.total_dram_bytes_written, o.memory_throughput_pct, o.dram_throughput_pct, o.mem_busy_pct, o.l1_hit_rate,
  o.l2_hit_rate, o.sm_throughput_pct, o.tensor_core_active_pct, o.achieved_occupancy, o.warp_cycles_per_instruction,
  o.eligible_cycles_pct, o.total_executed_instructions, o.total_issued_instructions, o.ipc_active,
  o.avg_threads_per_warp, o.registers_per_thread, o.dynamic_smem_per_block, o.local_memory_spills
FROM op_counters o
JOIN summed s ON s.op = o.op
ORDER BY o.op
