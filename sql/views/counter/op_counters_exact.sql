-- Hardware counters of one op call, or of all ops of one name: rates computed from the sums of their parts.
--
-- Each launch belongs to its innermost op only, and counts once. A rate covers the launches that have both of its sums.
-- `op_counters` has the values as other tools compute them.
CREATE VIEW op_counters_exact (
  -- Level of the row: call (one op), name (all ops of one name).
  grain,
  -- The op. Null if the row covers all ops of a name, and for launches outside any op.
  op_id,
  -- Its name.
  op,
  -- Launches, including those without counters.
  launch_count,
  -- Launches with counters. All columns below cover these launches, except for the last two.
  counted_launch_count,
  -- Their share of the launches.
  counted_share,
  -- Time of those launches while they were measured, overlaps counted twice, nanoseconds.
  duration_ns,
  -- Bytes read from DRAM.
  dram_read_bytes,
  -- Bytes written to DRAM.
  dram_write_bytes,
  -- Read and written bytes per second.
  dram_bytes_per_second,
  -- DRAM throughput, read and write, part of the peak.
  dram_throughput_share,
  -- L2 hit rate in sectors.
  l2_hit_share,
  -- L1 hit rate in sectors.
  l1_hit_share,
  -- Sectors of 32 bytes per global load of a warp.
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
  tensor_active_share,
  -- Issue activity: cycles in which a scheduler issued an instruction, divided by cycles in which it had a warp.
  issue_active_share,
  -- SM activity: cycles in which a multiprocessor had a warp, part of all. Low for launches that are small or end
  -- unevenly.
  sm_active_share,
  -- Warp instructions executed.
  instructions,
  -- Warp instructions issued.
  issued_instructions,
  -- Warp instructions executed per cycle in which a multiprocessor had a warp.
  instructions_per_cycle,
  -- Threads per executed instruction, up to 32.
  threads_per_instruction,
  -- Cycles that a warp spent on the multiprocessor per instruction that it issued.
  warp_cycles_per_instruction,
  -- Maximum of registers per thread, over all launches.
  register_count,
  -- Maximum of dynamic shared memory per block, over all launches, bytes.
  dynamic_shared_bytes
) AS
WITH work AS (
  SELECT
    l.op_id AS launch_op_id, o.name, l.register_count, l.dynamic_shared_bytes, w.*,
    w.dram_read_bytes + w.dram_write_bytes AS dram_bytes,
    coalesce(w.issued_warp_cycles, w.active_warp_cycles) AS latency_cycles,
    w.l2_hit_sectors + w.l2_miss_sectors AS l2_sectors
  FROM launch l
  LEFT JOIN op o ON o.op_id = l.op_id
  LEFT JOIN launch_work w ON w.kernel_id = l.kernel_id
), grained AS (
  SELECT 'call' AS grain, launch_op_id AS grain_op_id, * FROM work
  UNION ALL
  SELECT 'name', NULL, * FROM work
)
SELECT
  grain, grain_op_id, name,
  count(*),
  count(kernel_id),
  count(kernel_id) / CAST(count(*) AS DOUBLE),
  sum(duration_ns),
  sum(dram_read_bytes),
  sum(dram_write_bytes),
  sum(dram_bytes) FILTER (WHERE duration_ns IS NOT NULL) * 1e9
    / nullif(sum(duration_ns) FILTER (WHERE dram_bytes IS NOT NULL), 0.0),
  sum(dram_bytes) FILTER (WHERE dram_peak_bytes IS NOT NULL)
    / nullif(sum(dram_peak_bytes) FILTER (WHERE dram_bytes IS NOT NULL), 0.0),
  sum(l2_hit_sectors) FILTER (WHERE l2_sectors IS NOT NULL)
    / nullif(sum(l2_sectors) FILTER (WHERE l2_hit_sectors IS NOT NULL), 0.0),
  sum(l1_hit_sectors) FILTER (WHERE l1_sectors IS NOT NULL)
    / nullif(sum(l1_sectors) FILTER (WHERE l1_hit_sectors IS NOT NULL), 0.0),
  sum(load_sectors) FILTER (WHERE load_requests IS NOT NULL)
    / nullif(sum(load_requests) FILTER (WHERE load_sectors IS NOT NULL), 0.0),
  sum(store_sectors) FILTER (WHERE store_requests IS NOT NULL)
    / nullif(sum(store_requests) FILTER (WHERE store_sectors IS NOT NULL), 0.0),
  sum(shared_conflicts),
  sum(local_wavefronts),
  sum(active_warp_cycles) FILTER (WHERE warp_slot_cycles IS NOT NULL)
    / nullif(sum(warp_slot_cycles) FILTER (WHERE active_warp_cycles IS NOT NULL), 0.0),
  sum(tensor_active_cycles) FILTER (WHERE scheduler_active_cycles IS NOT NULL)
    / nullif(sum(scheduler_active_cycles) FILTER (WHERE tensor_active_cycles IS NOT NULL), 0.0),
  sum(issue_active_cycles) FILTER (WHERE scheduler_active_cycles IS NOT NULL)
    / nullif(sum(scheduler_active_cycles) FILTER (WHERE issue_active_cycles IS NOT NULL), 0.0),
  sum(sm_active_cycles) FILTER (WHERE sm_elapsed_cycles IS NOT NULL)
    / nullif(sum(sm_elapsed_cycles) FILTER (WHERE sm_active_cycles IS NOT NULL), 0.0),
  sum(instructions),
  sum(issued_instructions),
  sum(instructions) FILTER (WHERE sm_active_cycles IS NOT NULL)
    / nullif(sum(sm_active_cycles) FILTER (WHERE instructions IS NOT NULL), 0.0),
  sum(thread_instructions) FILTER (WHERE instructions IS NOT NULL)
    / nullif(sum(instructions) FILTER (WHERE thread_instructions IS NOT NULL), 0.0),
  sum(latency_cycles) FILTER (WHERE issued_instructions IS NOT NULL)
    / nullif(sum(issued_instructions) FILTER (WHERE latency_cycles IS NOT NULL), 0.0),
  max(register_count),
  max(dynamic_shared_bytes)
FROM grained
GROUP BY grain, grain_op_id, name
