-- Launches
-- One launch of one capture, with or without samples: its cost and its accesses. The variance is that of a Poisson
-- count. A number without variance is exact. Sampling runs of the program are averaged.
SELECT
  l.capture, l.kernel_id,
  coalesce(s.samples / s.runs, 0.0) AS samples,
  coalesce(s.samples * s.scale / power(s.runs, 2), 0.0) AS samples_variance,
  coalesce(s.memory_samples / s.runs, 0.0) AS memory,
  coalesce(s.memory_samples * s.scale / power(s.runs, 2), 0.0) AS memory_variance,
  coalesce(s.samples * s.sample_ns / s.runs, 0.0) AS time,
  coalesce(s.samples * s.scale * power(s.sample_ns / s.runs, 2), 0.0) AS time_variance,
  coalesce(s.memory_samples * s.sample_ns / s.runs, 0.0) AS memory_time,
  coalesce(s.memory_samples * s.scale * power(s.sample_ns / s.runs, 2), 0.0) AS memory_time_variance,
  1.0 AS launches,
  coalesce(p.sectors, 0.0) AS sectors,
  coalesce(p.bytes, 0.0) AS bytes
FROM every.launch l
LEFT JOIN (
  SELECT
    c.capture, c.kernel_id, c.samples, c.memory_samples, k.scale, t.sample_ns,
    CASE WHEN k.is_replay THEN 1.0 ELSE r.runs END AS runs
  FROM every.sample_cost c
  JOIN every.cost_run k ON k.capture = c.capture AND k.kernel_id = c.kernel_id AND k.run_id = c.run_id
  LEFT JOIN every.cost_time t ON t.capture = c.capture AND t.kernel_id = c.kernel_id AND t.run_id = c.run_id
  JOIN (
    SELECT capture, CAST(count(DISTINCT run_id) AS DOUBLE) AS runs FROM every.cost_run GROUP BY capture
  ) r ON r.capture = c.capture
) s ON s.capture = l.capture AND s.kernel_id = l.kernel_id
LEFT JOIN (
  SELECT capture, kernel_id, CAST(sum(sectors) AS DOUBLE) AS sectors, CAST(sum(unique_bytes) AS DOUBLE) AS bytes
  FROM every.pc_tensor
  GROUP BY capture, kernel_id
) p ON p.capture = l.capture AND p.kernel_id = l.kernel_id
