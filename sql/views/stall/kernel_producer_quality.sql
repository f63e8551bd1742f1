-- Quality of the producers of one kernel's stalls, as in `producer_quality`.
CREATE VIEW kernel_producer_quality (
  -- The kernel.
  function_id,
  -- Instructions found waiting for a result. An instruction that waits for two reasons counts twice.
  stall_count,
  -- Samples of them.
  samples,
  -- Part of those instructions that have exactly one producer.
  single_share,
  -- The same by samples.
  single_sample_share,
  -- Part of them that have several.
  several_share,
  -- The same by samples.
  several_sample_share,
  -- Part of them with approximate producers only: the code does not prove the dependency (for example, an mbarrier).
  approximate_share,
  -- The same by samples.
  approximate_sample_share,
  -- Part of them with candidates, none of which fits the stall reason.
  low_confidence_share,
  -- The same by samples.
  low_confidence_sample_share,
  -- Part of them without any producer.
  no_producer_share,
  -- The same by samples.
  no_producer_sample_share
) AS
SELECT
  kernel_function_id,
  count(*),
  sum(samples),
  avg(CASE WHEN producer_count = 1 THEN 1.0 ELSE 0.0 END),
  sum(CASE WHEN producer_count = 1 THEN samples ELSE 0 END) / nullif(CAST(sum(samples) AS DOUBLE), 0.0),
  avg(CASE WHEN producer_count > 1 THEN 1.0 ELSE 0.0 END),
  sum(CASE WHEN producer_count > 1 THEN samples ELSE 0 END) / nullif(CAST(sum(samples) AS DOUBLE), 0.0),
  avg(CASE WHEN confidence = 'approximate' THEN 1.0 ELSE 0.0 END),
  sum(CASE WHEN confidence = 'approximate' THEN samples ELSE 0 END) / nullif(CAST(sum(samples) AS DOUBLE), 0.0),
  avg(CASE WHEN confidence = 'low' THEN 1.0 ELSE 0.0 END),
  sum(CASE WHEN confidence = 'low' THEN samples ELSE 0 END) / nullif(CAST(sum(samples) AS DOUBLE), 0.0),
  avg(CASE WHEN producer_count = 0 THEN 1.0 ELSE 0.0 END),
  sum(CASE WHEN producer_count = 0 THEN samples ELSE 0 END) / nullif(CAST(sum(samples) AS DOUBLE), 0.0)
FROM scoreboard_stall
GROUP BY kernel_function_id
