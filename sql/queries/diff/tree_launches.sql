-- Launches of two trees
-- One launch of one capture with its call path, its cost, and the variance of the cost. The variance is that of a
-- Poisson count. Launches of one kernel with one grid from one Python stack repeat each other. Their distance from
-- their mean (Pearson's statistic, freedom its part of the degrees) gives the overdispersion.
WITH cost AS (
  SELECT
    l.kernel_id,
    l.function_id, l.grid_x, l.grid_y, l.grid_z, l.block_x, l.block_y, l.block_z, l.pystates_hash,
    coalesce(sum(s.samples), 0.0) AS samples,
    coalesce(sum(s.samples * k.scale), 0.0) AS samples_variance,
    coalesce(sum(s.memory_samples), 0.0) AS memory,
    coalesce(sum(s.memory_samples * k.scale), 0.0) AS memory_variance,
    coalesce(sum(s.time_ns), 0.0) AS time,
    coalesce(sum(s.time_ns * k.scale * t.sample_ns), 0.0) AS time_variance
  FROM launch l
  LEFT JOIN sample_cost s ON s.kernel_id = l.kernel_id
  LEFT JOIN cost_run k ON k.kernel_id = s.kernel_id AND k.run_id = s.run_id
  LEFT JOIN cost_time t ON t.kernel_id = s.kernel_id AND t.run_id = s.run_id
  GROUP BY
    l.kernel_id, l.function_id, l.grid_x, l.grid_y, l.grid_z, l.block_x, l.block_y, l.block_z, l.pystates_hash
), repeated AS (
  SELECT
    *,
    CAST(count(*) OVER repeats AS DOUBLE) AS launches,
    avg(samples) OVER repeats AS samples_mean, avg(samples_variance) OVER repeats AS samples_expected,
    avg(memory) OVER repeats AS memory_mean, avg(memory_variance) OVER repeats AS memory_expected,
    avg(time) OVER repeats AS time_mean, avg(time_variance) OVER repeats AS time_expected
  FROM cost
  WINDOW repeats AS (
    PARTITION BY function_id, grid_x, grid_y, grid_z, block_x, block_y, block_z, pystates_hash
  )
), given AS (
  SELECT
    kernel_id,
    max(CASE WHEN metric = 'flops' THEN value END) AS flops,
    max(CASE WHEN metric = 'flops' THEN time_ns END) AS flops_ns,
    max(CASE WHEN metric = 'bytes' THEN value END) AS bytes,
    max(CASE WHEN metric = 'bytes' THEN time_ns END) AS bytes_ns
  FROM launch_metric
  GROUP BY kernel_id
)
SELECT
  p.frames, p.user_frames, p.forward_frames, p.module_path, p.phase, h.program_step AS step, b.names AS ranges, p.ops, p.kernel,
  p.samples, p.memory_samples, p.time_ns, g.flops, g.flops_ns, g.bytes, g.bytes_ns, p.kernel_id,
  l.kernel_id IS NOT NULL AS is_program_launch,
  r.samples_variance, r.memory_variance, r.time_variance,
  CASE WHEN r.samples_expected > 0 THEN (r.launches - 1.0) / r.launches ELSE 0.0 END AS samples_freedom,
  CASE WHEN r.samples_expected > 0 THEN power(r.samples - r.samples_mean, 2) / r.samples_expected ELSE 0.0 END
    AS samples_pearson,
  CASE WHEN r.memory_expected > 0 THEN (r.launches - 1.0) / r.launches ELSE 0.0 END AS memory_freedom,
  CASE WHEN r.memory_expected > 0 THEN power(r.memory - r.memory_mean, 2) / r.memory_expected ELSE 0.0 END
    AS memory_pearson,
  CASE WHEN r.time_expected > 0 THEN (r.launches - 1.0) / r.launches ELSE 0.0 END AS time_freedom,
  CASE WHEN r.time_expected > 0 THEN power(r.time - r.time_mean, 2) / r.time_expected ELSE 0.0 END AS time_pearson
FROM call_path_cost p
LEFT JOIN program_launch l ON l.kernel_id = p.kernel_id
JOIN repeated r ON r.kernel_id = p.kernel_id
LEFT JOIN launch_phase h ON h.kernel_id = p.kernel_id
LEFT JOIN launch_range b ON b.kernel_id = p.kernel_id
LEFT JOIN given g ON g.kernel_id = p.kernel_id
ORDER BY p.kernel_id
