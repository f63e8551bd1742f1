-- Instructions below call paths
-- Samples of one instruction of one launch. The rows of a launch add up to its samples.
SELECT
  c.kernel_id, s.function_id, s.pc, s.function_id = c.function_id AS is_own,
  sum(s.samples) AS samples, sum(CASE WHEN r.is_memory THEN s.samples ELSE 0.0 END) AS memory_samples
FROM call_path_cost c
JOIN sample s ON s.kernel_id = c.kernel_id
JOIN stall_reason r ON r.reason = s.stall_reason
GROUP BY c.kernel_id, s.function_id, s.pc, s.function_id = c.function_id
ORDER BY c.kernel_id, s.function_id, s.pc
