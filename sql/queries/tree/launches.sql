-- Call paths
-- One launch with the calls that led to it and what it cost; the tree sums these rows up.
SELECT
  frames, user_frames, forward_frames, module_path, phase, step, ops, kernel, samples, memory_samples, estimated_ns
FROM call_path_cost
ORDER BY kernel_id
