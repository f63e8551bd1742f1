-- Counters
-- Hardware counters of launches that were replayed, each alone and by default from cold caches, or that another profiler
-- measured. time: from start to end, which exceeds the sampled time when SMs are idle. dram: throughput, % of peak. l2,
-- l1: hit rate in sectors. load, store: sectors of 32 bytes per request. occupancy: achieved occupancy. tensor: cycles
-- with active tensor cores. bound: memory or compute, whichever takes longer at its peak, latency if neither would take
-- a tenth of the time.
WITH work AS (
  SELECT
    l.function_id, l.kernel, n.short_kernel, w.*,
    w.dram_read_bytes + w.dram_write_bytes AS dram_bytes,
    w.l2_hit_sectors + w.l2_miss_sectors AS l2_sectors,
    r.efficiency * r.duration_ns AS roof_ns,
    CASE r.bound WHEN 'compute' THEN r.efficiency * r.duration_ns ELSE 0.0 END AS compute_ns
  FROM launch_work w
  JOIN launch_context l ON l.kernel_id = w.kernel_id
  LEFT JOIN kernel_name n ON n.function_id = l.function_id
  LEFT JOIN roofline r ON r.grain = 'launch' AND r.kernel_id = w.kernel_id
), ranked AS (
  SELECT function_id, row_number() OVER (ORDER BY sum(duration_ns) DESC NULLS LAST, min(kernel), function_id) AS position
  FROM work
  GROUP BY function_id
), placed AS (
  SELECT work.*, least($top + 1, r.position) AS place
  FROM work
  JOIN ranked r ON r.function_id = work.function_id
)
SELECT
  sum(duration_ns) AS time_ns,
  count(*) AS launches,
  sum(CASE WHEN dram_peak_bytes IS NOT NULL THEN dram_bytes END)
    / nullif(sum(CASE WHEN dram_bytes IS NOT NULL THEN dram_peak_bytes END), 0.0) AS dram_share,
  sum(l2_hit_sectors) / nullif(sum(l2_sectors), 0.0) AS l2_share,
  sum(l1_hit_sectors) / nullif(sum(l1_sectors), 0.0) AS l1_share,
  sum(load_sectors) / nullif(sum(load_requests), 0.0) AS load,
  sum(store_sectors) / nullif(sum(store_requests), 0.0) AS store,
  sum(active_warp_cycles) / nullif(sum(warp_slot_cycles), 0.0) AS occupancy_share,
  sum(tensor_active_cycles) / nullif(sum(scheduler_active_cycles), 0.0) AS tensor_share,
  CASE
    WHEN sum(roof_ns) < 0.1 * sum(CASE WHEN roof_ns IS NOT NULL THEN duration_ns END) THEN 'latency'
    WHEN sum(compute_ns) > 0.5 * sum(roof_ns) THEN 'compute'
    WHEN sum(roof_ns) > 0.0 THEN 'memory'
  END AS bound,
  CASE WHEN place <= $top THEN max(short_kernel)
    ELSE 'other (' || CAST(count(DISTINCT function_id) AS VARCHAR) || ')' END AS kernel
FROM placed
GROUP BY place
ORDER BY place
