-- Call paths
-- One launch with its call path and its cost. The tree aggregates these rows.
SELECT
  c.frames, c.user_frames, c.forward_frames, c.module_path, c.phase, c.step, c.ops,
  coalesce(n.short_kernel, c.kernel) AS kernel, c.samples, c.memory_samples, c.time_ns
FROM call_path_cost c
LEFT JOIN kernel_name n ON n.function_id = c.function_id
ORDER BY c.kernel_id
