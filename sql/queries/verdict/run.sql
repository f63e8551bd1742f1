-- Run
-- The program, its GPUs, its launches and their GPU time. timed_launches: launches with a time. measured_launches:
-- launches whose time was measured, not estimated. busy_share: part of the devices' time with work. steps: optimizer
-- steps.
SELECT
  r.program, r.arguments, CAST(date_trunc('second', to_timestamp_nanos(r.started_ns)) AS VARCHAR) AS started,
  (SELECT string_agg(name, ', ' ORDER BY name) FROM (SELECT DISTINCT name FROM device)) AS gpus,
  (SELECT count(DISTINCT rank) FROM run) AS ranks,
  (SELECT count(DISTINCT step) FROM op WHERE phase = 'optimizer') AS steps,
  (SELECT count(*) FROM launch) AS launches,
  (SELECT count(DISTINCT kernel_id) FROM cost_run) AS sampled_launches,
  (SELECT count(*) FROM memory_access) AS requests,
  (SELECT count(time_ns) FROM launch_time) AS timed_launches,
  (SELECT count(*) FROM measured_time) AS measured_launches,
  (SELECT sum(busy_ns) / nullif(CAST(sum(span_ns) AS DOUBLE), 0.0) FROM device_time) AS busy_share,
  c.samples, c.memory_samples, c.time_ns
FROM (
  SELECT sum(samples) AS samples, sum(memory_samples) AS memory_samples, sum(time_ns) AS time_ns
  FROM sample_cost
) c
LEFT JOIN (SELECT * FROM run ORDER BY run_id LIMIT 1) r ON true
