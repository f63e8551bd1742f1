-- Totals
-- The cost of all launches together.
SELECT capture, kernel_id, key, key AS what, '' AS detail, value, variance
FROM (
  SELECT capture, kernel_id, 'samples' AS key, samples AS value, samples_variance AS variance FROM diff_launch
  UNION ALL
  SELECT capture, kernel_id, 'memory samples', memory, memory_variance FROM diff_launch
  UNION ALL
  SELECT capture, kernel_id, 'time', time, time_variance FROM diff_launch
  UNION ALL
  SELECT capture, kernel_id, 'launches', launches, 0.0 FROM diff_launch
  UNION ALL
  SELECT capture, kernel_id, 'sectors', sectors, 0.0 FROM diff_launch
  UNION ALL
  SELECT capture, kernel_id, 'bytes', bytes, 0.0 FROM diff_launch
)
WHERE key NOT IN ($unknown)
