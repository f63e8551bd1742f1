-- Agreement of attributed samples with the cost of device memory: the shares of `redirect_share`, over the launches of a
-- run, for kernels with copies by tensor maps and for all other kernels.
--
-- First and rank correlation as in `ablation_agreement`: intervals that overlap are equal.
CREATE VIEW redirect_agreement (
  -- The run of the experiments.
  run_id,
  -- True for kernels that copy by tensor maps or by bulk copies.
  has_copies,
  is_cold,
  -- Experiments on one object.
  experiment_count,
  -- Experiments that were refused or could not be measured.
  refused_count,
  -- Objects that are compared, as in `redirect_share`.
  compared_count,
  -- Launches with such objects.
  launch_count,
  -- Launches where the object that is first by samples saves as much as any other.
  first_agrees_count,
  -- Objects whose share of samples is in the confidence interval of their share of time.
  within_count,
  -- Mean half width of these intervals.
  mean_interval,
  -- Mean difference of the two shares.
  mean_error,
  -- Largest difference.
  max_error,
  -- Pairs of objects of one launch whose order was measured.
  ordered_pair_count,
  -- Rank correlation over these pairs. Null without any.
  rank_correlation
) AS
WITH placed AS (
  SELECT *, max(saved_share_low) OVER (PARTITION BY run_id, kernel_id, is_cold) AS most_share_low FROM redirect_share
), compared AS (
  SELECT
    run_id, has_copies, is_cold, count(*) AS compared_count, count(DISTINCT kernel_id) AS launch_count,
    count(DISTINCT CASE WHEN charged_rank = 1 AND saved_share_high >= most_share_low THEN kernel_id END)
      AS first_agrees_count,
    sum(CASE WHEN charged_share BETWEEN saved_share_low AND saved_share_high THEN 1 ELSE 0 END) AS within_count,
    avg((saved_share_high - saved_share_low) / 2) AS mean_interval,
    avg(abs(saved_share - charged_share)) AS mean_error, max(abs(saved_share - charged_share)) AS max_error
  FROM placed
  GROUP BY run_id, has_copies, is_cold
), ordered AS (
  SELECT
    a.run_id, a.has_copies, a.is_cold, count(*) AS pair_count,
    avg(CAST(signum(a.charged_share - b.charged_share) AS DOUBLE)) AS rank_correlation
  FROM redirect_share a
  JOIN redirect_share b ON b.run_id = a.run_id AND b.kernel_id = a.kernel_id AND b.is_cold = a.is_cold
  WHERE a.saved_share_low > b.saved_share_high
  GROUP BY a.run_id, a.has_copies, a.is_cold
), made AS (
  SELECT
    run_id, has_copies, is_cold, count(*) AS experiment_count,
    sum(CASE WHEN saved_ns IS NULL THEN 1 ELSE 0 END) AS refused_count
  FROM redirect_cost
  WHERE target = 'object'
  GROUP BY run_id, has_copies, is_cold
)
SELECT
  m.run_id, m.has_copies, m.is_cold, m.experiment_count, m.refused_count, coalesce(c.compared_count, 0),
  coalesce(c.launch_count, 0), coalesce(c.first_agrees_count, 0), coalesce(c.within_count, 0), c.mean_interval,
  c.mean_error, c.max_error, coalesce(o.pair_count, 0), o.rank_correlation
FROM made m
LEFT JOIN compared c ON c.run_id = m.run_id AND c.has_copies = m.has_copies AND c.is_cold = m.is_cold
LEFT JOIN ordered o ON o.run_id = m.run_id AND o.has_copies = m.has_copies AND o.is_cold = m.is_cold
