-- Run
-- The program, its GPUs, its launches and their GPU time. timed_launches: launches with a time. measured_launches:
-- launches whose time was measured, not estimated. busy_share: part of the devices' time with work. costliest:
-- the kernel with most of the time. steps: optimizer steps.
SELECT
  r.program, r.arguments, CAST(date_trunc('second', to_timestamp_nanos(r.started_ns)) AS VARCHAR) AS started,
  (SELECT string_agg(name, ', ' ORDER BY name) FROM (SELECT DISTINCT name FROM device)) AS gpus,
  (SELECT count(DISTINCT rank) FROM run) AS ranks,
  (SELECT count(DISTINCT step) FROM op WHERE phase = 'optimizer') AS steps,
  (SELECT count(*) FROM launch) AS launches,
  (SELECT count(DISTINCT kernel_id) FROM cost_run) AS sampled_launches,
  (SELECT count(*) FROM cost_run WHERE is_replay) AS replayed_launches,
  (SELECT count(*) FROM memory_access) AS requests,
  (SELECT count(time_ns) FROM launch_time) AS timed_launches,
  (SELECT count(*) FROM measured_time) AS measured_launches,
  (SELECT sum(busy_ns) / nullif(CAST(sum(span_ns) AS DOUBLE), 0.0) FROM device_time) AS busy_share,
  k.costliest, k.time_ns / nullif(c.time_ns, 0.0) AS costliest_share,
  c.samples, c.memory_samples, c.time_ns
FROM (
  SELECT sum(samples) AS samples, sum(memory_samples) AS memory_samples, sum(time_ns) AS time_ns
  FROM sample_cost
) c
LEFT JOIN (SELECT * FROM run ORDER BY run_id LIMIT 1) r ON true
LEFT JOIN (
  SELECT coalesce(n.short_kernel, s.kernel) AS costliest, s.time_ns
  FROM kernel_cost s
  LEFT JOIN kernel_name n ON n.function_id = s.function_id
  ORDER BY s.time_ns DESC NULLS LAST, s.kernel, s.function_id
  LIMIT 1
) k ON true
