-- Agreement of costs with experiments: the shares of `ablation_share`, over all launches of a run.
--
-- Columns that begin with `waited_` compare samples that wait, in place of costs. Both are first in a launch if no other
-- experiment saves significantly more: intervals that overlap are equal.
--
-- Rank correlation is Kendall's, over pairs of experiments on one launch whose order was measured: the intervals of their
-- savings do not overlap. Pairs in the same order by samples less those in the other order, divided by all of these pairs.
-- Two savings that overlap are both too small, so a share is more exact than a saving. Launches of few microseconds have
-- wide intervals: `within_count` is close to `compared_count` if these explain the differences.
CREATE VIEW ablation_agreement (
  -- The run of the experiments.
  run_id,
  -- Accesses that are left out, as in `ablation_cost`.
  target,
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
  -- Pairs of experiments on one launch whose order was measured.
  ordered_pair_count,
  -- Rank correlation over these pairs. Null without any.
  rank_correlation,
  -- Launches where the experiment that is first by samples that wait saves as much as any other.
  waited_first_agrees_count,
  -- Experiments whose share of samples that wait is in the confidence interval of their share of time.
  waited_within_count,
  -- Mean difference of these shares.
  waited_mean_error,
  -- Largest difference of these.
  waited_max_error,
  -- Rank correlation of these.
  waited_rank_correlation
) AS
WITH placed AS (
  SELECT *, max(saved_share_low) OVER (PARTITION BY run_id, kernel_id, target, is_cold) AS most_share_low
  FROM ablation_share
), compared AS (
  SELECT
    run_id, target, is_cold, count(*) AS compared_count, count(DISTINCT kernel_id) AS launch_count,
    count(DISTINCT CASE WHEN charged_rank = 1 AND saved_share_high >= most_share_low THEN kernel_id END)
      AS first_agrees_count,
    sum(CASE WHEN charged_share BETWEEN saved_share_low AND saved_share_high THEN 1 ELSE 0 END) AS within_count,
    avg((saved_share_high - saved_share_low) / 2) AS mean_interval,
    avg(abs(saved_share - charged_share)) AS mean_error, max(abs(saved_share - charged_share)) AS max_error,
    count(DISTINCT CASE WHEN waited_rank = 1 AND saved_share_high >= most_share_low THEN kernel_id END)
      AS waited_first_agrees_count,
    sum(CASE WHEN waited_share BETWEEN saved_share_low AND saved_share_high THEN 1 ELSE 0 END) AS waited_within_count,
    avg(abs(saved_share - waited_share)) AS waited_mean_error, max(abs(saved_share - waited_share)) AS waited_max_error
  FROM placed
  GROUP BY run_id, target, is_cold
), ordered AS (
  SELECT
    a.run_id, a.target, a.is_cold, count(*) AS pair_count,
    avg(CAST(signum(a.charged_share - b.charged_share) AS DOUBLE)) AS rank_correlation,
    avg(CAST(signum(a.waited_share - b.waited_share) AS DOUBLE)) AS waited_rank_correlation
  FROM ablation_share a
  JOIN ablation_share b
    ON b.run_id = a.run_id AND b.kernel_id = a.kernel_id AND b.target = a.target AND b.is_cold = a.is_cold
  WHERE a.saved_share_low > b.saved_share_high
  GROUP BY a.run_id, a.target, a.is_cold
), made AS (
  SELECT
    run_id, target, is_cold, count(*) AS experiment_count,
    sum(CASE WHEN saved_ns IS NULL THEN 1 ELSE 0 END) AS refused_count
  FROM ablation
  GROUP BY run_id, target, is_cold
)
SELECT
  m.run_id, m.target, m.is_cold, m.experiment_count, m.refused_count, coalesce(c.compared_count, 0),
  coalesce(c.launch_count, 0), coalesce(c.first_agrees_count, 0), coalesce(c.within_count, 0), c.mean_interval,
  c.mean_error, c.max_error, coalesce(o.pair_count, 0), o.rank_correlation, coalesce(c.waited_first_agrees_count, 0),
  coalesce(c.waited_within_count, 0), c.waited_mean_error, c.waited_max_error, o.waited_rank_correlation
FROM made m
LEFT JOIN compared c ON c.run_id = m.run_id AND c.target = m.target AND c.is_cold = m.is_cold
LEFT JOIN ordered o ON o.run_id = m.run_id AND o.target = m.target AND o.is_cold = m.is_cold
