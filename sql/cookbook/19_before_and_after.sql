-- Did my change help, or is the difference not significant?
-- Captures are opened as before=... and after=.... The schema `every` has the rows of both. Lines lose their numbers,
-- because an edit moves them. Counts vary by the Poisson law, and launches by another 5 % or so. `~` marks a ratio
-- whose 95 % confidence interval, low to high, contains 1. `stallmap diff` does the same for all parts, and measures
-- that variation.
-- Capture: before=inference_views after=inference_views_contiguous
WITH launch_part AS (
  SELECT l.capture, regexp_replace(l.line, ':[0-9]+', '') AS place, s.samples
  FROM every.launch_context l
  JOIN every.sample_cost s ON s.capture = l.capture AND s.kernel_id = l.kernel_id
), summed AS (
  SELECT
    place,
    sum(CASE WHEN capture = 'before' THEN samples ELSE 0.0 END) AS before,
    sum(CASE WHEN capture = 'after' THEN samples ELSE 0.0 END) AS after,
    1.0 + 0.05 * 0.05 * sum(samples * samples) / sum(samples) AS weight
  FROM launch_part
  GROUP BY place
)
SELECT
  place, before, after, round(after / nullif(before, 0.0), 2) AS ratio,
  round(rate_ratio_low(before / weight, 1.0, after / weight, 1.0), 2) AS low,
  round(rate_ratio_high(before / weight, 1.0, after / weight, 1.0), 2) AS high,
  CASE
    WHEN rate_ratio_p(before / weight, 1.0, after / weight, 1.0) > 0.05 THEN '~'
    WHEN after < before THEN 'less' ELSE 'more'
  END AS verdict
FROM summed
ORDER BY abs(after - before) DESC, place
