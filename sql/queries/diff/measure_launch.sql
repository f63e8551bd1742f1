-- Launches
-- One launch of one capture, with or without samples: its cost and its accesses. The variance of samples is that of a
-- Poisson count. That of a measured duration is the resolution of the clock and one percent of the duration: launches
-- that repeat each other say more. A number without variance is exact.
SELECT
  l.capture, l.kernel_id,
  coalesce(s.samples, 0.0) AS samples,
  coalesce(s.samples_variance, 0.0) AS samples_variance,
  coalesce(s.memory, 0.0) AS memory,
  coalesce(s.memory_variance, 0.0) AS memory_variance,
  coalesce(d.time_ns, s.time, 0.0) AS time,
  coalesce(power(32.0, 2) + power(0.01 * d.time_ns, 2), s.time_variance, 0.0) AS time_variance,
  coalesce(s.memory_time, 0.0) AS memory_time,
  coalesce(s.memory_time_variance, 0.0) AS memory_time_variance,
  CASE WHEN w.kernel_id IS NULL THEN 0.0 ELSE 1.0 END AS launches,
  coalesce(p.sectors, 0.0) AS sectors,
  coalesce(p.bytes, 0.0) AS bytes
FROM every.launch l
LEFT JOIN every.program_launch w ON w.capture = l.capture AND w.kernel_id = l.kernel_id
LEFT JOIN every.measured_time d ON d.capture = l.capture AND d.kernel_id = l.kernel_id
LEFT JOIN (
  SELECT
    c.capture, c.kernel_id,
    sum(c.samples) AS samples,
    sum(c.samples * k.scale) AS samples_variance,
    sum(c.memory_samples) AS memory,
    sum(c.memory_samples * k.scale) AS memory_variance,
    sum(c.samples * t.sample_ns) AS time,
    sum(c.samples * k.scale * power(t.sample_ns, 2)) AS time_variance,
    sum(c.memory_samples * t.sample_ns) AS memory_time,
    sum(c.memory_samples * k.scale * power(t.sample_ns, 2)) AS memory_time_variance
  FROM every.sample_cost c
  JOIN every.cost_run k ON k.capture = c.capture AND k.kernel_id = c.kernel_id AND k.run_id = c.run_id
  LEFT JOIN every.cost_time t ON t.capture = c.capture AND t.kernel_id = c.kernel_id AND t.run_id = c.run_id
  GROUP BY c.capture, c.kernel_id
) s ON s.capture = l.capture AND s.kernel_id = l.kernel_id
LEFT JOIN (
  SELECT capture, kernel_id, CAST(sum(sectors) AS DOUBLE) AS sectors, CAST(sum(unique_bytes) AS DOUBLE) AS bytes
  FROM every.pc_tensor
  GROUP BY capture, kernel_id
) p ON p.capture = l.capture AND p.kernel_id = l.kernel_id
