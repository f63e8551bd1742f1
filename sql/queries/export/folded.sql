-- Call paths, as folded stacks
-- One call path per row, names separated by semicolons, callers first: Python frames, ops, kernel. Flame graphs need
-- whole numbers: samples are rounded, and paths that round to none are one row. A capture without samples has GPU time
-- in nanoseconds instead.
WITH path AS (
  SELECT
    -- Names may contain semicolons, so a control character joins them first.
    replace(replace(replace(array_to_string(array_concat(
      coalesce(frames, make_array('(no Python stack)')),
      coalesce(ops, make_array('(no op)')),
      make_array(coalesce(kernel, '(unknown kernel)'))
    ), chr(31)), ';', ','), chr(10), ' '), chr(31), ';') AS stack,
    CASE WHEN sum(samples) OVER () > 0.0 THEN samples ELSE coalesce(time_ns, 0.0) END AS samples
  FROM call_path_cost
), summed AS (
  SELECT stack, sum(samples) AS samples FROM path GROUP BY stack HAVING sum(samples) > 0.0
)
SELECT
  CASE WHEN samples < 0.5 THEN '(paths of less than half a sample)' ELSE stack END AS stack,
  CAST(round(sum(samples)) AS BIGINT) AS samples
FROM summed
GROUP BY 1
ORDER BY stack
