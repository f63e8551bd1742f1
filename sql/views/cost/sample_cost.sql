-- Cost of one launch: of kernels, lines and ops, before attribution to tensors.
--
-- A launch without samples whose time was measured is a row too.
CREATE VIEW sample_cost (
  -- The run that took the samples. Of a launch without samples, the run that defines it.
  run_id,
  kernel_id,
  -- Samples.
  samples,
  memory_samples,
  -- GPU time, nanoseconds: measured, or estimated from the samples. See `launch_time`.
  time_ns
) AS
WITH summed AS (
  SELECT
    s.run_id, s.kernel_id,
    sum(s.samples) AS samples,
    sum(CASE WHEN r.is_memory THEN s.samples ELSE 0.0 END) AS memory_samples
  FROM launch_sample s
  JOIN stall_reason r ON r.reason = s.stall_reason
  GROUP BY s.run_id, s.kernel_id
)
SELECT s.run_id, s.kernel_id, s.samples, s.memory_samples, s.samples * t.sample_ns
FROM summed s
LEFT JOIN cost_time t ON t.run_id = s.run_id AND t.kernel_id = s.kernel_id
UNION ALL
SELECT l.run_id, m.kernel_id, 0.0, 0.0, m.time_ns
FROM measured_time m
JOIN launch l ON l.kernel_id = m.kernel_id
LEFT JOIN summed s ON s.kernel_id = m.kernel_id
WHERE s.kernel_id IS NULL
