-- Which kernels are bound by latency, not by bandwidth or arithmetic?
-- These kernels spend most samples on memory, yet stay far below the DRAM bandwidth. percent_of_roof is the time at the
-- roof divided by the measured time. Needs hardware counters (`stallmap-record replay`).
-- Capture: training_parts
SELECT
  n.short_kernel AS kernel, r.launch_count, round(r.duration_ns / r.launch_count) AS ns_per_launch, r.bound,
  round(100.0 * r.efficiency, 1) AS percent_of_roof, round(100.0 * k.memory_share, 1) AS memory_stall_percent
FROM roofline r
JOIN kernel_name n ON n.function_id = r.function_id
JOIN kernel_cost k ON k.function_id = r.function_id
WHERE r.grain = 'kernel' AND r.efficiency < 0.3 AND k.memory_share > 0.5
ORDER BY r.duration_ns DESC, kernel
LIMIT 5
