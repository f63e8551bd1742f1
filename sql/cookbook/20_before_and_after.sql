-- Did my change help?
-- Two captures, opened as before=... and after=...: functions that launched kernels, by the estimated time of the GPU in
-- each. Lines are left out of their names, because an edit moves them.
-- Capture: before=inference_views after=inference_views_contiguous
WITH old AS (
  SELECT regexp_replace(line, ':[0-9]+', '') AS place, sum(estimated_ns) AS ns FROM before.line_cost GROUP BY place
), new AS (
  SELECT regexp_replace(line, ':[0-9]+', '') AS place, sum(estimated_ns) AS ns FROM after.line_cost GROUP BY place
)
SELECT
  coalesce(o.place, n.place) AS place, round(o.ns) AS ns_before, round(n.ns) AS ns_after,
  round(coalesce(n.ns, 0.0) - coalesce(o.ns, 0.0)) AS change_ns,
  round(100.0 * (n.ns / o.ns - 1.0), 1) AS change_percent
FROM old o
FULL JOIN new n ON n.place = o.place
ORDER BY change_ns, place
