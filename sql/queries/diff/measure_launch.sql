-- Launches
-- One launch of one capture, with or without samples: its cost and its accesses. Sampling runs of the program are
-- averaged. The variance of samples is that of a Poisson count. That of a measured duration is the resolution of the
-- clock and one percent of the duration: launches that repeat each other say more. A number without variance is exact.
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
  1.0 AS launches,
  coalesce(p.sectors, 0.0) AS sectors,
  coalesce(p.bytes, 0.0) AS bytes
FROM every.launch l
LEFT JOIN every.measured_time d ON d.capture = l.capture AND d.kernel_id = l.kernel_id
LEFT JOIN (
  SELECT
    capture, kernel_id,
    sum(samples / runs) AS samples,
    sum(samples * scale / power(runs, 2)) AS samples_variance,
    sum(memory_samples / runs) AS memory,
    sum(memory_samples * scale / power(runs, 2)) AS memory_variance,
    sum(samples * sample_ns / runs) AS time,
    sum(samples * scale * power(sample_ns / runs, 2)) AS time_variance,
    sum(memory_samples * sample_ns / runs) AS memory_time,
    sum(memory_samples * scale * power(sample_ns / runs, 2)) AS memory_time_variance
  FROM (
    SELECT
      c.capture, c.kernel_id, c.samples, c.memory_samples, k.scale, t.sample_ns,
      CASE WHEN k.is_replay THEN 1.0 ELSE r.runs END AS runs
    FROM every.sample_cost c
    JOIN every.cost_run k ON k.capture = c.capture AND k.kernel_id = c.kernel_id AND k.run_id = c.run_id
    LEFT JOIN every.cost_time t ON t.capture = c.capture AND t.kernel_id = c.kernel_id AND t.run_id = c.run_id
    JOIN (
      SELECT capture, CAST(count(DISTINCT run_id) AS DOUBLE) AS runs FROM every.cost_run GROUP BY capture
    ) r ON r.capture = c.capture
  )
  GROUP BY capture, kernel_id
) s ON s.capture = l.capture AND s.kernel_id = l.kernel_id
LEFT JOIN (
  SELECT capture, kernel_id, CAST(sum(sectors) AS DOUBLE) AS sectors, CAST(sum(unique_bytes) AS DOUBLE) AS bytes
  FROM every.pc_tensor
  GROUP BY capture, kernel_id
) p ON p.capture = l.capture AND p.kernel_id = l.kernel_id
