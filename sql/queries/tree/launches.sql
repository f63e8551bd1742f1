-- Call paths
-- One launch with its call path and its cost. The tree aggregates these rows.
SELECT
  frames, user_frames, forward_frames, module_path, phase, step, ops, kernel, samples, memory_samples, estimated_ns
FROM call_path_cost
ORDER BY kernel_id
