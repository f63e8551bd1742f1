-- Agreement of attribution with experiments: the shares of `ablation_share`, over all launches of a run.
--
-- Columns that begin with `traffic_` compare `traffic_charge` in place of waits alone. Both are first in a launch if no
-- other experiment saves more beyond chance: intervals that overlap are equal.
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
  -- Launches where the experiment that is first by samples saves as much as any other.
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
  rank_correlation,
  -- Launches where the experiment that is first by traffic saves as much as any other.
  traffic_first_agrees_count,
  -- Experiments whose share by traffic is in the confidence interval of their share of time.
  traffic_within_count,
  -- Mean difference of the share by traffic and the share of time.
  traffic_mean_error,
  -- Largest difference of these.
  traffic_max_error,
  -- Spearman's rank correlation of these.
  traffic_rank_correlation
) AS
WITH ranked AS (
  SELECT
    *,
    rank() OVER (PARTITION BY run_id, target, is_cold ORDER BY saved_share)
      + (count(*) OVER (PARTITION BY run_id, target, is_cold, saved_share) - 1) / 2.0 AS saved_place,
    rank() OVER (PARTITION BY run_id, target, is_cold ORDER BY charged_share)
      + (count(*) OVER (PARTITION BY run_id, target, is_cold, charged_share) - 1) / 2.0 AS charged_place,
    rank() OVER (PARTITION BY run_id, target, is_cold ORDER BY traffic_share)
      + (count(*) OVER (PARTITION BY run_id, target, is_cold, traffic_share) - 1) / 2.0 AS traffic_place,
    max(saved_share_low) OVER (PARTITION BY run_id, kernel_id, target, is_cold) AS most_share_low
  FROM ablation_share
), compared AS (
  SELECT
    run_id, target, is_cold, count(*) AS compared_count, count(DISTINCT kernel_id) AS launch_count,
    count(DISTINCT CASE WHEN charged_rank = 1 AND saved_share_high >= most_share_low THEN kernel_id END) AS first_agrees_count,
    sum(CASE WHEN charged_share BETWEEN saved_share_low AND saved_share_high THEN 1 ELSE 0 END) AS within_count,
    avg((saved_share_high - saved_share_low) / 2) AS mean_interval,
    avg(abs(saved_share - charged_share)) AS mean_error, max(abs(saved_share - charged_share)) AS max_error,
    corr(saved_place, charged_place) AS rank_correlation,
    count(DISTINCT CASE WHEN traffic_rank = 1 AND saved_share_high >= most_share_low THEN kernel_id END)
      AS traffic_first_agrees_count,
    sum(CASE WHEN traffic_share BETWEEN saved_share_low AND saved_share_high THEN 1 ELSE 0 END) AS traffic_within_count,
    avg(abs(saved_share - traffic_share)) AS traffic_mean_error, max(abs(saved_share - traffic_share)) AS traffic_max_error,
    corr(saved_place, traffic_place) AS traffic_rank_correlation
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
  coalesce(c.launch_count, 0), coalesce(c.first_agrees_count, 0), coalesce(c.within_count, 0), c.mean_interval, c.mean_error, c.max_error, c.rank_correlation,
  coalesce(c.traffic_first_agrees_count, 0), coalesce(c.traffic_within_count, 0), c.traffic_mean_error,
  c.traffic_max_error, c.traffic_rank_correlation
FROM made m
LEFT JOIN compared c ON c.run_id = m.run_id AND c.target = m.target AND c.is_cold = m.is_cold
