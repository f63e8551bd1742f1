-- Work and speed
-- The change of time in four parts that add up to it, as shares of the first capture's time: calls (more or fewer of the
-- same work), size (larger or smaller shapes, at the first capture's time for each element), speed (the same work in
-- other time, also by other kernels), unmatched (kernels that only one capture has). span: the longest time of a timeline
-- from the first to the last work of a GPU.
WITH total AS (
  SELECT capture, sum(time) AS time FROM diff_class GROUP BY capture
), item AS (
  -- Each class of the first capture, for each other one, and those of the other.
  SELECT o.capture, c.level, c.key, c.class, c.calls AS calls_a, c.size AS size_a, c.time AS time_a,
    0.0 AS calls_b, CAST(NULL AS DOUBLE) AS size_b, 0.0 AS time_b
  FROM diff_class c
  JOIN (SELECT capture FROM total WHERE capture <> '$base') o ON true
  WHERE c.capture = '$base'
  UNION ALL
  SELECT capture, level, key, class, 0.0, NULL, 0.0, calls, size, time FROM diff_class WHERE capture <> '$base'
), pair AS (
  SELECT
    capture, level, key, class, sum(calls_a) AS calls_a, max(size_a) AS size_a, sum(time_a) AS time_a,
    sum(calls_b) AS calls_b, max(size_b) AS size_b, sum(time_b) AS time_b
  FROM item
  GROUP BY capture, level, key, class
), matched AS (
  SELECT *, (level IN ('op', 'kernel') AND calls_a > 0.0 AND calls_b > 0.0) AS is_same FROM pair
), compared AS (
  -- Classes of one item that have no counterpart of their own are compared together, by their sizes.
  SELECT
    capture, level, key, is_same,
    sum(calls_a) AS calls_a, sum(calls_b) AS calls_b, sum(time_a) AS time_a, sum(time_b) AS time_b,
    CASE WHEN is_same THEN 1.0 WHEN count(coalesce(size_a, size_b)) = count(*)
      THEN (sum(calls_b * size_b) / nullif(sum(calls_b), 0.0)) / nullif(sum(calls_a * size_a) / nullif(sum(calls_a), 0.0), 0.0)
    END AS growth
  FROM matched
  GROUP BY capture, level, key, is_same, CASE WHEN is_same THEN class END
), change AS (
  SELECT
    *, time_b - time_a AS change,
    CASE
      WHEN level NOT IN ('op', 'kernel') THEN 0.0
      -- Further shapes of what both have.
      WHEN calls_a <= 0.0 OR calls_b <= 0.0 THEN time_b - time_a
      ELSE (calls_b / calls_a - 1.0) * time_a
    END AS of_calls,
    CASE WHEN level IN ('op', 'kernel') AND calls_a > 0.0 AND calls_b > 0.0
      THEN calls_b / calls_a * (coalesce(growth, 1.0) - 1.0) * time_a ELSE 0.0 END AS of_size,
    CASE WHEN level = 'remainder' OR level = 'module' AND (calls_a <= 0.0 OR calls_b <= 0.0)
      THEN time_b - time_a ELSE 0.0 END AS of_one
  FROM compared
), share AS (
  SELECT
    capture, sum(of_calls) AS of_calls, sum(of_size) AS of_size, sum(of_one) AS of_one,
    sum(change - of_calls - of_size - of_one) AS of_speed
  FROM change
  GROUP BY capture
), span AS (
  SELECT capture, CAST(max(span_ns) AS DOUBLE) AS span FROM every.device_time GROUP BY capture
)
SELECT
  x.capture,
  s.of_calls / nullif(b.time, 0.0) AS calls_share, s.of_size / nullif(b.time, 0.0) AS size_share,
  s.of_speed / nullif(b.time, 0.0) AS speed_share, s.of_one / nullif(b.time, 0.0) AS unmatched_share,
  (x.time - b.time) / nullif(b.time, 0.0) AS change_share,
  sb.span AS base_span, sx.span AS span
FROM total x
JOIN total b ON b.capture = '$base'
LEFT JOIN share s ON s.capture = x.capture
LEFT JOIN span sb ON sb.capture = '$base'
LEFT JOIN span sx ON sx.capture = x.capture
WHERE x.capture <> '$base'
ORDER BY x.capture
