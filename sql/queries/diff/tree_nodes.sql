-- Nodes of two trees
-- Each node of a tree, by each metric, in the capture to compare with (base) and in the other: the ratio, its 95 %
-- confidence interval, and its significance. The table `tree_node` has the sums of the launches below each node, from
-- `tree_launches`: values, divisors (exposure: 1, launches or samples), variances, squares, and the overdispersion of
-- repeated launches. is_family: these nodes have a false discovery rate of 5 %, whichever of them are shown.
WITH overall AS (
  SELECT
    metric,
    greatest(1.0, coalesce(pearson / nullif(freedom, 0.0), 1.0)) AS dispersion,
    -- With hardly any repeated launches, the variation is unknown. A fixed share of each launch replaces it.
    CASE WHEN freedom >= 4 THEN 0.0 ELSE spread END AS assumed
  FROM tree_node
  WHERE is_whole
), widened AS (
  SELECT
    n.*,
    n.base_variance * greatest(1.0, CASE WHEN n.freedom >= 4 THEN n.pearson / n.freedom ELSE o.dispersion END)
      + power(o.assumed, 2) * n.base_squares AS base_wide,
    n.variance * greatest(1.0, CASE WHEN n.freedom >= 4 THEN n.pearson / n.freedom ELSE o.dispersion END)
      + power(o.assumed, 2) * n.squares AS wide
  FROM tree_node n
  JOIN overall o ON o.metric = n.metric
), weight AS (
  -- Weight of one count in the total, for nodes that one side lacks.
  SELECT
    metric, coalesce(base_wide / nullif(base_value, 0.0), 0.0) AS base_weight,
    coalesce(wide / nullif(value, 0.0), 0.0) AS weight
  FROM widened
  WHERE is_whole
), weighed AS (
  SELECT
    n.*,
    coalesce(n.base_wide / nullif(n.base_value, 0.0), nullif(w.base_weight, 0.0), w.weight) AS base_weight,
    coalesce(n.wide / nullif(n.value, 0.0), nullif(w.weight, 0.0), w.base_weight) AS weight
  FROM widened n
  JOIN weight w ON w.metric = n.metric
), tested AS (
  -- p: probability of so large a difference by random variation alone. Numbers without variance are exact.
  SELECT
    *,
    CASE
      WHEN base_exposure <= 0 OR exposure <= 0 THEN NULL
      WHEN base_weight > 0 AND weight > 0
      THEN rate_ratio_p(base_value / base_weight, base_exposure / base_weight, value / weight, exposure / weight)
      WHEN abs(value - base_value) <= 1e-9 * greatest(value, base_value) THEN 1.0
      ELSE 0.0
    END AS p
  FROM weighed
), ranked AS (
  SELECT
    metric, p,
    row_number() OVER (PARTITION BY metric ORDER BY p) AS p_rank,
    count(*) OVER (PARTITION BY metric) AS nodes
  FROM tested
  WHERE is_family AND p IS NOT NULL
), least AS (
  -- Benjamini and Hochberg.
  SELECT metric, max(CASE WHEN p <= 0.05 * p_rank / nodes THEN p END) AS p FROM ranked GROUP BY metric
)
SELECT
  t.place, t.metric, t.p,
  CASE
    WHEN t.p IS NULL THEN NULL
    WHEN t.p > coalesce(l.p, -1.0) THEN '~'
    WHEN t.value / t.exposure > t.base_value / t.base_exposure THEN 'more'
    ELSE 'less'
  END AS verdict,
  (t.value / nullif(t.exposure, 0.0)) / nullif(t.base_value / nullif(t.base_exposure, 0.0), 0.0) AS ratio,
  CASE
    WHEN t.base_value <= 0 OR t.base_exposure <= 0 OR t.exposure <= 0 THEN NULL
    WHEN t.base_weight > 0 AND t.weight > 0
    THEN rate_ratio_low(
      t.base_value / t.base_weight, t.base_exposure / t.base_weight, t.value / t.weight, t.exposure / t.weight)
    ELSE t.value / t.base_value
  END AS ratio_low,
  CASE
    WHEN t.base_value <= 0 OR t.base_exposure <= 0 OR t.exposure <= 0 THEN NULL
    WHEN t.base_weight > 0 AND t.weight > 0
    THEN rate_ratio_high(
      t.base_value / t.base_weight, t.base_exposure / t.base_weight, t.value / t.weight, t.exposure / t.weight)
    ELSE t.value / t.base_value
  END AS ratio_high,
  t.base_wide AS base_variance, t.wide AS variance
FROM tested t
LEFT JOIN least l ON l.metric = t.metric
WHERE t.is_shown
ORDER BY t.place, t.metric
