-- Run
-- The program, its GPUs, its launches and their GPU time, estimated from the sampling period. steps: optimizer steps.
SELECT
  r.program, r.arguments, CAST(date_trunc('second', to_timestamp_nanos(r.started_ns)) AS VARCHAR) AS started,
  (SELECT string_agg(name, ', ' ORDER BY name) FROM (SELECT DISTINCT name FROM device)) AS gpus,
  (SELECT count(DISTINCT rank) FROM run) AS ranks,
  (SELECT count(DISTINCT step) FROM op WHERE phase = 'optimizer') AS steps,
  (SELECT count(*) FROM launch) AS launches,
  (SELECT count(DISTINCT kernel_id) FROM cost_run) AS sampled_launches,
  (SELECT count(*) FROM memory_access) AS requests,
  c.samples, c.memory_samples, c.estimated_ns
FROM (
  SELECT sum(samples) AS samples, sum(memory_samples) AS memory_samples, sum(estimated_ns) AS estimated_ns
  FROM sample_cost
) c
LEFT JOIN (SELECT * FROM run ORDER BY run_id LIMIT 1) r ON true
