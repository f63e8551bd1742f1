-- The hardware counters of one launch, side by side. See `launch_work` for sums and `launch_counter` for all others.
--
-- Shares are parts of 1. ncu prints percent. Null if a counter was not measured. Values are not clamped: numerator and
-- denominator may come from different passes, and a share of a tiny launch can exceed 1, as in ncu (see `launch_work`).
CREATE VIEW launch_counters (
  kernel_id,
  -- The kernel.
  function_id,
  kernel,
  -- The innermost op or region around the launch.
  op_id,
  -- Its name.
  op,
  -- Its time on the GPU while it was measured, nanoseconds.
  duration_ns,
  -- Difference between its longest and its shortest time, divided by their mean. Null with one repeat.
  duration_spread,
  -- Its time in replays without an instrument, nanoseconds.
  native_duration_ns,
  -- Bytes read from DRAM.
  dram_read_bytes,
  -- Bytes written to DRAM.
  dram_write_bytes,
  -- Read and written bytes per second.
  dram_bytes_per_second,
  -- DRAM throughput, part of the peak: by bytes or by commands, the larger of the two.
  dram_throughput_share,
  -- Memory throughput, part of the peak of its busiest unit: caches, interconnect, DRAM.
  memory_throughput_share,
  -- SM throughput, part of the peak of its busiest unit: issue and pipes.
  sm_throughput_share,
  -- L2 hit rate in sectors: hits divided by hits and misses. ncu's lts__t_sector_hit_rate.pct divides by all sectors,
  -- which another pass counts. The two differ for launches of a few microseconds.
  l2_hit_share,
  -- L1 hit rate in sectors.
  l1_hit_share,
  -- Sectors of 32 bytes per global load of a warp: 4 if 32 lanes read 4 adjacent bytes each.
  sectors_per_load,
  -- The same for global stores.
  sectors_per_store,
  -- Bank conflicts of shared memory.
  shared_conflicts,
  -- Wavefronts of local memory: spilled registers, and arrays of threads.
  local_wavefronts,
  -- Achieved occupancy: active warps divided by the maximum, while the multiprocessor had any.
  occupancy_share,
  -- Tensor core activity: cycles in which tensor cores worked, divided by cycles in which their schedulers had a warp.
  -- Tensor cores also execute HFMA2, which compilers use to set registers: kernels without any matrix product show some
  -- activity.
  tensor_active_share,
  -- Issue activity: cycles in which a scheduler issued an instruction, divided by cycles in which it had a warp.
  issue_active_share,
  -- Warp instructions executed.
  instructions,
  -- Warp instructions executed per cycle in which a multiprocessor had a warp.
  instructions_per_cycle,
  -- Threads per executed instruction, up to 32.
  threads_per_instruction,
  -- Cycles that a warp spent on the multiprocessor per instruction that it issued.
  warp_cycles_per_instruction,
  -- Repeats that gave its time.
  repeat_count
) AS
WITH share AS (
  SELECT
    kernel_id,
    max(CASE WHEN metric = 'lts__t_sector_hit_rate.pct' THEN value END) / 100 AS l2_hit_share,
    max(CASE WHEN metric = 'l1tex__t_sector_hit_rate.pct' THEN value END) / 100 AS l1_hit_share,
    max(CASE WHEN metric = 'sm__warps_active.avg.pct_of_peak_sustained_active' THEN value END) / 100
      AS occupancy_share,
    max(CASE WHEN metric = 'smsp__issue_active.avg.pct_of_peak_sustained_active' THEN value END) / 100
      AS issue_active_share,
    max(CASE WHEN metric = 'smsp__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active' THEN value END) / 100
      AS tensor_active_share,
    max(CASE WHEN metric = 'sm__throughput.avg.pct_of_peak_sustained_elapsed' THEN value END) / 100
      AS sm_throughput_share,
    max(CASE WHEN metric = 'gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed' THEN value END) / 100
      AS memory_throughput_share,
    max(CASE WHEN metric = 'dram__throughput.avg.pct_of_peak_sustained_elapsed' THEN value END) / 100
      AS dram_throughput_share,
    max(CASE WHEN metric = 'gpu__time_duration.sum' THEN spread END) AS spread,
    max(CASE WHEN metric = 'gpu__time_duration.sum' THEN repeat_count END) AS repeat_count
  FROM launch_counter
  GROUP BY kernel_id
)
SELECT
  w.kernel_id, l.function_id, l.kernel, l.op_id, l.op,
  w.duration_ns, s.spread, d.native_ns,
  w.dram_read_bytes, w.dram_write_bytes,
  (w.dram_read_bytes + w.dram_write_bytes) * 1e9 / nullif(w.duration_ns, 0.0),
  s.dram_throughput_share, s.memory_throughput_share, s.sm_throughput_share,
  coalesce(w.l2_hit_sectors / nullif(w.l2_hit_sectors + w.l2_miss_sectors, 0.0), s.l2_hit_share),
  coalesce(w.l1_hit_sectors / nullif(w.l1_sectors, 0.0), s.l1_hit_share),
  w.load_sectors / nullif(w.load_requests, 0.0),
  w.store_sectors / nullif(w.store_requests, 0.0),
  w.shared_conflicts, w.local_wavefronts,
  coalesce(w.active_warp_cycles / nullif(w.warp_slot_cycles, 0.0), s.occupancy_share),
  coalesce(w.tensor_active_cycles / nullif(w.scheduler_active_cycles, 0.0), s.tensor_active_share),
  coalesce(w.issue_active_cycles / nullif(w.scheduler_active_cycles, 0.0), s.issue_active_share),
  w.instructions,
  w.instructions / nullif(w.sm_active_cycles, 0.0),
  w.thread_instructions / nullif(w.instructions, 0.0),
  coalesce(w.issued_warp_cycles, w.active_warp_cycles) / nullif(w.issued_instructions, 0.0),
  s.repeat_count
FROM launch_work w
JOIN share s ON s.kernel_id = w.kernel_id
JOIN launch_context l ON l.kernel_id = w.kernel_id
LEFT JOIN launch_duration d ON d.kernel_id = w.kernel_id
