-- Do my launches fill the GPU, and which resource limits occupancy?
-- occupancy_percent is the theoretical occupancy from registers, shared memory and block size, limiter the scarcest
-- resource. achieved_percent is measured by hardware counters. If it is far lower, grids have too few blocks:
-- idle_percent of the multiprocessors got none.
-- Capture: training_parts
SELECT
  n.short_kernel AS kernel, max(o.block_count) AS blocks, o.block_threads AS threads, o.register_count AS registers,
  round(100.0 * o.occupancy, 1) AS occupancy_percent, o.limiter,
  round(100.0 * avg(o.achieved_occupancy), 1) AS achieved_percent,
  round(100.0 * avg(o.idle_multiprocessor_share), 1) AS idle_percent, round(max(k.samples), 1) AS kernel_samples
FROM launch_occupancy o
JOIN kernel_name n ON n.function_id = o.function_id
JOIN kernel_cost k ON k.function_id = o.function_id
GROUP BY n.short_kernel, o.function_id, o.block_threads, o.register_count, o.occupancy, o.limiter
ORDER BY kernel_samples DESC, kernel, threads
LIMIT 6
