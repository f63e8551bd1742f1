-- Agreement of attribution with experiments: the shares of `ablation_share`, over all launches of a run.
--
-- Two savings that overlap are both too small, so a share is more exact than a saving. Launches of few microseconds have
-- wide intervals: `within_count` is close to `compared_count` if these explain the differences.
CREATE VIEW ablation_agreement (
  -- The run of the experiments.
  run_id,
  -- Accesses that are left out, as in `ablation_cost`.
  target,
  -- True if caches were flushed before each replay.
  is_cold,
  -- Experiments.
  experiment_count,
  -- Experiments that were refused or could not be measured.
  refused_count,
  -- Experiments that are compared, as in `ablation_share`.
  compared_count,
  -- Launches with such experiments.
  launch_count,
  -- Launches where the experiment that saves most is also the first by samples.
  first_agrees_count,
  -- Experiments whose share of samples is in the confidence interval of their share of time.
  within_count,
  -- Mean half width of these intervals.
  mean_interval,
  -- Mean difference of the two shares.
  mean_error,
  -- Largest difference.
  max_error,
  -- Spearman's rank correlation of the two shares, ties averaged. Null if one of them has only ties.
  rank_correlation
) AS
WITH ranked AS (
  SELECT
    *,
    rank() OVER (PARTITION BY run_id, target, is_cold ORDER BY saved_share)
      + (count(*) OVER (PARTITION BY run_id, target, is_cold, saved_share) - 1) / 2.0 AS saved_place,
    rank() OVER (PARTITION BY run_id, target, is_cold ORDER BY charged_share)
      + (count(*) OVER (PARTITION BY run_id, target, is_cold, charged_share) - 1) / 2.0 AS charged_place
  FROM ablation_share
), compared AS (
  SELECT
    run_id, target, is_cold, count(*) AS compared_count, count(DISTINCT kernel_id) AS launch_count,
    count(DISTINCT CASE WHEN saved_rank = 1 AND charged_rank = 1 THEN kernel_id END) AS first_agrees_count,
    sum(CASE WHEN charged_share BETWEEN saved_share_low AND saved_share_high THEN 1 ELSE 0 END) AS within_count,
    avg((saved_share_high - saved_share_low) / 2) AS mean_interval,
    avg(abs(saved_share - charged_share)) AS mean_error, max(abs(saved_share - charged_share)) AS max_error,
    corr(saved_place, charged_place) AS rank_correlation
  FROM ranked
  GROUP BY run_id, target, is_cold
), made AS (
  SELECT
    run_id, target, is_cold, count(*) AS experiment_count,
    sum(CASE WHEN saved_ns IS NULL THEN 1 ELSE 0 END) AS refused_count
  FROM ablation
  GROUP BY run_id, target, is_cold
)
SELECT
  m.run_id, m.target, m.is_cold, m.experiment_count, m.refused_count, coalesce(c.compared_count, 0),
  coalesce(c.launch_count, 0), coalesce(c.first_agrees_count, 0), coalesce(c.within_count, 0), c.mean_interval, c.mean_error, c.max_error, c.rank_correlation
FROM made m
LEFT JOIN compared c ON c.run_id = m.run_id AND c.target = m.target AND c.is_cold = m.is_cold
