-- Hardware counters of one op call, and of all ops of one name: rates made anew from the sums that they are rates of.
--
-- Each launch belongs to its innermost op only, so that each counts once. A rate is of those launches that have both of
-- its sums. What `op_counters` says of the same ops is what other tools say.
CREATE VIEW op_counters_exact (
  -- What the row is: call (one op), name (all of one name).
  grain,
  -- The op; null where the row is of all of a name, and for launches outside any op.
  op_id,
  -- Its name.
  op,
  -- Launches, those without counters too.
  launch_count,
  -- Launches with counters; all that follows is theirs but for the last two.
  counted_launch_count,
  -- Their part.
  counted_share,
  -- Time of those launches while they were measured, overlaps counted twice, nanoseconds.
  duration_ns,
  -- Bytes read from DRAM.
  dram_read_bytes,
  -- Bytes written to DRAM.
  dram_write_bytes,
  -- Both, a second.
  dram_bytes_per_second,
  -- Both, of what DRAM could have moved in the time.
  dram_throughput_share,
  -- Part of the sectors looked up in L2 that it had.
  l2_hit_share,
  -- Part of the sectors looked up in L1 that it had.
  l1_hit_share,
  -- Sectors of 32 bytes of a global load of a warp.
  sectors_per_load,
  -- The same of a global store.
  sectors_per_store,
  -- Bank conflicts of shared memory.
  shared_conflicts,
  -- Wavefronts of local memory: spilled registers, and arrays of threads.
  local_wavefronts,
  -- Warps on a multiprocessor, of those that it can hold, while it had any.
  occupancy_share,
  -- Cycles in which tensor cores worked, of those in which their schedulers had a warp.
  tensor_active_share,
  -- Cycles in which a scheduler issued an instruction, of those in which it had a warp.
  issue_active_share,
  -- Cycles in which a multiprocessor had a warp, of all: low where launches are small or end unevenly.
  sm_active_share,
  -- Instructions executed, of whole warps.
  instructions,
  -- Instructions issued, of whole warps.
  issued_instructions,
  -- Instructions executed for each cycle in which a multiprocessor had a warp.
  instructions_per_cycle,
  -- Threads of an executed instruction, of 32.
  threads_per_instruction,
  -- Cycles that a warp spent on the multiprocessor for each instruction that it issued.
  warp_cycles_per_instruction,
  -- Largest number of registers of a thread, of all launches.
  register_count,
  -- Most dynamic shared memory of a block, of all launches, bytes.
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
