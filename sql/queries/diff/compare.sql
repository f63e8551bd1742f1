-- Comparison
-- Cost of each row in the first capture and in another, and the significance of the difference.
WITH spread AS (
  -- Overdispersion relative to Poisson counts: Pearson's statistic divided by its degrees of freedom. Launches of one
  -- kernel with one grid from one Python stack repeat each other.
  SELECT
    key,
    CAST(sum(launches - 1) AS DOUBLE) AS freedom,
    sum((squares - value * value / launches) / (variance / launches)) AS pearson
  FROM $table
  WHERE launches > 1 AND variance > 0 AND first_kernel_id IS NOT NULL
  GROUP BY key
), dispersed AS (
  -- A row with few repeats takes the overdispersion of all rows.
  SELECT
    key,
    greatest(1.0, CASE WHEN freedom >= 4 THEN pearson / freedom ELSE sum(pearson) OVER () / sum(freedom) OVER () END)
      AS dispersion
  FROM spread
), overall AS (
  SELECT
    greatest(1.0, coalesce(sum(pearson) / nullif(sum(freedom), 0.0), 1.0)) AS dispersion,
    -- With hardly any repeated launches, the variation is unknown. A fixed share of each launch replaces it.
    CASE WHEN coalesce(sum(freedom), 0.0) >= 4 THEN 0.0 ELSE $spread END AS assumed
  FROM spread
), unit AS (
  -- Divisors of sums: captures of different lengths compare per step of a rank, or per launch.
  SELECT
    capture,
    CAST(
      CASE '$per'
        WHEN 'step' THEN greatest(sum(steps), 1)
        WHEN 'launch' THEN greatest(sum(launches), 1)
        ELSE 1
      END AS DOUBLE
    ) AS unit
  FROM (
    SELECT l.capture, l.run_id, count(DISTINCT o.program_step) AS steps, count(w.kernel_id) AS launches
    FROM every.launch l
    LEFT JOIN every.program_launch w ON w.capture = l.capture AND w.kernel_id = l.kernel_id
    LEFT JOIN every.launch_phase o ON o.capture = l.capture AND o.kernel_id = l.kernel_id
    GROUP BY l.capture, l.run_id
  )
  GROUP BY capture
), step_value AS (
  SELECT capture, key, run_id, program_step, sum(value) AS value
  FROM $table
  WHERE program_step IS NOT NULL
  GROUP BY capture, key, run_id, program_step
), step_spread AS (
  -- Variance of the mean of three or more steps, from their spread. A step without the row has none of it. The last factor
  -- widens it to Student's t of so few steps.
  SELECT
    v.capture, v.key,
    greatest(0.0, sum(v.value * v.value) - power(sum(v.value), 2) / max(u.unit)) / (max(u.unit) - 1.0) / max(u.unit)
      * power(
        1.0 + 1.21 / (max(u.unit) - 1.0) + 1.44 / power(max(u.unit) - 1.0, 2) + 1.3 / power(max(u.unit) - 1.0, 3), 2
      ) AS variance
  FROM step_value v
  JOIN unit u ON u.capture = v.capture
  WHERE u.unit >= 3.0
  GROUP BY v.capture, v.key
), label AS (
  -- Texts may be long: they join what is shown, and take no part in sorts.
  SELECT
    capture, key, min(what) AS what,
    CASE WHEN min(detail) = max(last_detail) THEN min(detail) ELSE min(detail) || ', and others' END AS detail
  FROM $table
  GROUP BY capture, key
), summed AS (
  SELECT
    p.capture, p.key, sum(p.launches) AS launches,
    sum(p.value) / max(u.unit) AS value,
    -- The spread of repeated steps, else that of repeated launches.
    CASE WHEN max(s.variance) IS NOT NULL
      THEN greatest(max(s.variance), sum(p.variance) / power(max(u.unit), 2))
      ELSE (
        sum(p.variance) * max(coalesce(d.dispersion, a.dispersion))
          + max(power(a.assumed, 2)) * sum(p.varied_squares)
      ) / power(max(u.unit), 2)
    END AS variance
  FROM $table p
  JOIN unit u ON u.capture = p.capture
  LEFT JOIN step_spread s ON s.capture = p.capture AND s.key = p.key
  LEFT JOIN dispersed d ON d.key = p.key
  CROSS JOIN overall a
  GROUP BY p.capture, p.key
), weight AS (
  -- Weight of one count in the total, for rows that one side lacks.
  SELECT capture, coalesce(sum(variance) / nullif(sum(value), 0.0), 0.0) AS weight FROM summed GROUP BY capture
), pair AS (
  SELECT
    c.capture, k.key,
    b.key IS NULL AS is_new, x.key IS NULL AS is_gone,
    coalesce(b.launches, 0) AS base_launches, coalesce(x.launches, 0) AS launches,
    coalesce(b.value, 0.0) AS base_value, coalesce(x.value, 0.0) AS value,
    coalesce(b.variance, 0.0) AS base_variance, coalesce(x.variance, 0.0) AS variance,
    coalesce(b.variance / nullif(b.value, 0.0), nullif(wb.weight, 0.0), wx.weight, 0.0) AS base_weight,
    coalesce(x.variance / nullif(x.value, 0.0), nullif(wx.weight, 0.0), wb.weight, 0.0) AS weight
  FROM (SELECT DISTINCT key FROM summed) k
  CROSS JOIN (SELECT DISTINCT capture FROM every.run WHERE capture <> '$base') c
  LEFT JOIN summed b ON b.key = k.key AND b.capture = '$base'
  LEFT JOIN summed x ON x.key = k.key AND x.capture = c.capture
  LEFT JOIN weight wb ON wb.capture = '$base'
  LEFT JOIN weight wx ON wx.capture = c.capture
), tested AS (
  -- p: probability of so large a difference by random variation alone. Numbers without variance are exact.
  SELECT
    *,
    CASE
      WHEN base_weight > 0 AND weight > 0
      THEN rate_ratio_p(base_value / base_weight, 1.0 / base_weight, value / weight, 1.0 / weight)
      WHEN abs(value - base_value) <= 1e-9 * greatest(value, base_value) THEN 1.0
      ELSE 0.0
    END AS p
  FROM pair
), ranked AS (
  SELECT
    *,
    row_number() OVER (PARTITION BY capture ORDER BY p, key) AS p_rank,
    count(*) OVER (PARTITION BY capture) AS rows
  FROM tested
), judged AS (
  -- Rows reported as different have a false discovery rate of 5 % (Benjamini and Hochberg).
  SELECT
    *,
    p_rank <= coalesce(max(CASE WHEN p <= 0.05 * p_rank / rows THEN p_rank END) OVER (PARTITION BY capture), 0)
      AS is_changed
  FROM ranked
), sized AS (
  SELECT
    key, bool_or(is_changed) AS is_ranked,
    max(CASE WHEN is_changed THEN abs(value - base_value) END) AS size,
    max(greatest(value, base_value)) AS larger
  FROM judged
  GROUP BY key
), placed AS (
  SELECT
    key, is_ranked,
    CASE
      WHEN $all = 1 THEN row_number() OVER (ORDER BY is_ranked DESC, size DESC NULLS LAST, larger DESC, key)
      WHEN is_ranked
      THEN least($top + 1, row_number() OVER (PARTITION BY is_ranked ORDER BY size DESC, larger DESC, key))
      ELSE $top + 2
    END AS place
  FROM sized
), grouped AS (
  SELECT
    s.place, j.capture,
    count(*) AS rows,
    sum(CASE WHEN j.is_new THEN 1 ELSE 0 END) AS new_rows,
    sum(CASE WHEN j.is_gone THEN 1 ELSE 0 END) AS gone_rows,
    bool_or(j.is_changed) AS is_changed,
    bool_or(s.is_ranked) AS is_ranked,
    -- Its label. The rows that are summed have none.
    CASE WHEN s.place <= $top OR $all = 1 THEN max(j.key) END AS key,
    sum(j.base_launches) AS base_launches, sum(j.launches) AS launches,
    sum(j.base_value) AS base_value, sum(j.value) AS value,
    -- The exact metrics have no weight. An empty sum takes the weight of its capture.
    coalesce(sum(j.base_variance) / nullif(sum(j.base_value), 0.0), max(j.base_weight)) AS base_weight,
    coalesce(sum(j.variance) / nullif(sum(j.value), 0.0), max(j.weight)) AS weight
  FROM judged j
  JOIN placed s ON s.key = j.key
  GROUP BY s.place, j.capture
), bounded AS (
  SELECT
    *,
    CASE WHEN base_weight > 0 THEN poisson_low(base_value / base_weight) * base_weight ELSE base_value END
      AS base_low,
    CASE WHEN base_weight > 0 THEN poisson_high(base_value / base_weight) * base_weight ELSE base_value END
      AS base_high,
    CASE WHEN weight > 0 THEN poisson_low(value / weight) * weight ELSE value END AS low,
    CASE WHEN weight > 0 THEN poisson_high(value / weight) * weight ELSE value END AS high
  FROM grouped
)
SELECT
  place, g.capture,
  CASE
    WHEN place <= $top OR $all = 1 THEN coalesce(lx.what, lb.what)
    WHEN is_ranked
    THEN 'other (' || CAST(rows AS VARCHAR) || ')'
    ELSE 'not significant (' || CAST(rows AS VARCHAR) || ')'
  END AS what,
  nullif(coalesce(nullif(lx.detail, ''), lb.detail), '') AS detail,
  coalesce(
    nullif(CASE WHEN lx.detail <> lb.detail THEN lb.detail END, ''), CASE WHEN lx.what <> lb.what THEN lb.what END
  ) AS was,
  CASE
    WHEN is_ranked AND place > $top AND $all = 0 THEN NULL
    WHEN NOT is_changed THEN '~'
    WHEN value > base_value THEN 'more'
    ELSE 'less'
  END AS verdict,
  CASE
    WHEN rows = 1 AND new_rows = 1 AND gone_rows = 0 THEN 'added'
    WHEN rows = 1 AND gone_rows = 1 AND new_rows = 0 THEN 'removed'
  END AS status,
  rows, new_rows, gone_rows, base_launches, launches,
  base_value, value,
  -- Sums are added in any order, so a difference in the last digits is not a change.
  CASE WHEN abs(value - base_value) <= 1e-9 * greatest(value, base_value) THEN 0.0 ELSE value - base_value END AS change,
  -- Newcombe's square-and-add of both intervals.
  value - base_value - sqrt(power(value - low, 2) + power(base_high - base_value, 2)) AS change_low,
  value - base_value + sqrt(power(high - value, 2) + power(base_value - base_low, 2)) AS change_high,
  value / nullif(base_value, 0.0) AS ratio,
  CASE WHEN base_weight > 0 AND weight > 0
    THEN rate_ratio_low(base_value / base_weight, 1.0 / base_weight, value / weight, 1.0 / weight)
    ELSE value / nullif(base_value, 0.0) END AS ratio_low,
  CASE WHEN base_weight > 0 AND weight > 0
    THEN rate_ratio_high(base_value / base_weight, 1.0 / base_weight, value / weight, 1.0 / weight)
    ELSE value / nullif(base_value, 0.0) END AS ratio_high
FROM bounded g
LEFT JOIN label lb ON lb.capture = '$base' AND lb.key = g.key
LEFT JOIN label lx ON lx.capture = g.capture AND lx.key = g.key
ORDER BY place, g.capture
