-- Samples of one launch: cost of kernels, lines and ops, before attribution to tensors.
CREATE VIEW sample_cost (
  -- The run that took the samples.
  run_id,
  -- The launch.
  kernel_id,
  -- Samples.
  samples,
  -- Samples of memory stalls.
  memory_samples,
  -- Estimated GPU time, nanoseconds. See `cost_time`.
  estimated_ns
) AS
WITH summed AS (
  SELECT
    s.run_id, s.kernel_id,
    sum(s.samples) AS samples,
    sum(CASE WHEN r.is_memory THEN s.samples ELSE 0.0 END) AS memory_samples
  FROM sample s
  JOIN stall_reason r ON r.reason = s.stall_reason
  GROUP BY s.run_id, s.kernel_id
)
SELECT s.run_id, s.kernel_id, s.samples, s.memory_samples, s.samples * t.sample_ns
FROM summed s
LEFT JOIN cost_time t ON t.run_id = s.run_id AND t.kernel_id = s.kernel_id
