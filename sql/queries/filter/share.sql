-- Share of some launches
-- Launches and kernels that a filter chooses, of all, and their part of all samples.
WITH chosen AS (
  SELECT kernel_id, function_id FROM launch_context WHERE $filter
)
SELECT
  (SELECT count(*) FROM chosen) AS launches,
  (SELECT count(*) FROM launch) AS all_launches,
  (SELECT count(DISTINCT function_id) FROM chosen) AS kernels,
  (SELECT count(DISTINCT function_id) FROM launch) AS all_kernels,
  coalesce((SELECT sum(samples) FROM sample_cost WHERE kernel_id IN (SELECT kernel_id FROM chosen)), 0.0)
    / nullif((SELECT sum(samples) FROM sample_cost), 0.0) AS share
