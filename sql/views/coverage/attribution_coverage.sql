-- Coverage of lines, ops and layers, as rows of `coverage`: launches of the program that have one, without trials of
-- tuners.
CREATE VIEW attribution_coverage (
  position,
  item,
  count,
  -- Total of the item.
  total,
  -- Null: not every launch has one.
  is_whole,
  -- Part of the GPU time, and the reason why most of the rest lacks it.
  detail
) AS
WITH ranked AS (
  SELECT
    *, row_number() OVER (PARTITION BY subject, means IS NULL ORDER BY time_ns DESC NULLS LAST, launch_count DESC, missing) AS place
  FROM attribution
  -- A program without hooks has none at all.
  CROSS JOIN (SELECT count(*) AS ops FROM op LIMIT 1) p
  WHERE p.ops > 0
)
SELECT
  51,
  CASE subject WHEN 'line' THEN 'launches with a line' WHEN 'op' THEN 'launches with an op' ELSE 'launches with a layer' END,
  CAST(sum(CASE WHEN means IS NULL THEN 0 ELSE launch_count END) AS DOUBLE),
  CAST(sum(launch_count) AS DOUBLE),
  CAST(NULL AS BOOLEAN),
  coalesce(CAST(CAST(round(100.0 * sum(CASE WHEN means IS NULL THEN 0.0 ELSE time_share END)) AS BIGINT) AS VARCHAR)
    || ' % of the GPU time', 'times are not known')
    || coalesce('. Most of the rest: ' || max(CASE WHEN means IS NULL AND place = 1 THEN missing END), '')
FROM ranked
GROUP BY subject
