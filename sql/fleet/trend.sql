-- One number of one thing in one capture of a fleet, in the order of time, with the interval that earlier captures let
-- expect, and the changes.
--
-- A series is one thing in captures of one model, branch, rank and GPU, and without a label `model` of one program. The
-- interval is that of the next value after up to eight earlier ones, with 99 % of Student's t distribution. A change is a value outside of it whose mean with up to four
-- later ones differs from the earlier mean by 1 % or more, beyond the 99 % interval of the difference. Of several next to
-- each other, the most certain one is the change.
CREATE VIEW trend (
  -- The number: time (GPU nanoseconds), samples, memory (samples of memory stalls), launches.
  metric,
  -- The kind of thing: total, kernel, line, op, tensor, role.
  kind,
  -- Its name.
  name,
  -- Its identity in all captures, as in `trend_point`.
  series,
  -- The capture.
  capture,
  -- Its label `commit`.
  commit,
  -- Its label `model`.
  model,
  -- Its label `branch`.
  branch,
  -- Its script, else its program. Null with a label `model`, which says more.
  program,
  -- The rank of its runs.
  rank,
  -- Names of its devices.
  gpu,
  -- Start of its first run.
  time,
  -- Position in the series, from 1.
  point,
  -- The number.
  value,
  -- Number of earlier values that the interval is of.
  history,
  -- Their mean.
  expected,
  -- Lower end of the interval. Null after fewer than three values.
  low,
  -- Upper end of the interval.
  high,
  -- Mean of this value and up to four later ones.
  later,
  -- Their part above or below the earlier mean.
  change,
  -- True for a change.
  is_change
) AS
WITH number AS (
  SELECT 'time' AS metric, *, time_ns AS value FROM trend_point WHERE time_ns IS NOT NULL
  UNION ALL
  SELECT 'samples', *, samples AS value FROM trend_point
  UNION ALL
  SELECT 'memory', *, memory_samples AS value FROM trend_point
  UNION ALL
  SELECT 'launches', *, CAST(launch_count AS DOUBLE) AS value FROM trend_point WHERE launch_count IS NOT NULL
), near AS (
  SELECT
    metric, kind, name, series, capture, commit, model, branch, program, rank, gpu, time, value,
    row_number() OVER (PARTITION BY metric, kind, series, model, branch, program, rank, gpu ORDER BY time, capture) AS point,
    count(value) OVER before AS history, avg(value) OVER before AS expected,
    greatest(var_samp(value) OVER before, 0.0) AS variance,
    count(value) OVER after AS later_count, avg(value) OVER after AS later,
    greatest(var_samp(value) OVER after, 0.0) AS later_variance
  FROM number
  WINDOW
    before AS (
      PARTITION BY metric, kind, series, model, branch, program, rank, gpu ORDER BY time, capture
      ROWS BETWEEN 8 PRECEDING AND 1 PRECEDING
    ),
    after AS (
      PARTITION BY metric, kind, series, model, branch, program, rank, gpu ORDER BY time, capture
      ROWS BETWEEN CURRENT ROW AND 4 FOLLOWING
    )
), spread AS (
  SELECT
    *,
    CASE WHEN history >= 3 THEN
      make_array(63.657, 9.925, 5.841, 4.604, 4.032, 3.707, 3.499)[history - 1]
        * sqrt(variance * (1.0 + 1.0 / history)) END AS next_error,
    CASE WHEN history >= 3 THEN
      make_array(63.657, 9.925, 5.841, 4.604, 4.032, 3.707, 3.499, 3.355, 3.250, 3.169, 3.106)[history + later_count - 2]
        * sqrt((variance * (history - 1) + coalesce(later_variance, 0.0) * (later_count - 1))
          / (history + later_count - 2) * (1.0 / history + 1.0 / later_count)) END AS later_error
  FROM near
), scored AS (
  SELECT
    *,
    CASE
      WHEN abs(value - expected) > next_error AND abs(later - expected) > later_error
        AND abs(later - expected) >= 0.01 * abs(expected)
      THEN abs(later - expected) / greatest(later_error, 1e-9 * abs(expected))
    END AS score
  FROM spread
)
SELECT
  metric, kind, name, series, capture, commit, model, branch, program, rank, gpu, time, point, value, history, expected,
  expected - next_error, expected + next_error, later, later / nullif(expected, 0.0) - 1.0,
  score IS NOT NULL
    AND score > coalesce(max(score) OVER (
      PARTITION BY metric, kind, series, model, branch, program, rank, gpu ORDER BY point
      ROWS BETWEEN 2 PRECEDING AND 1 PRECEDING
    ), 0.0)
    AND score >= coalesce(max(score) OVER (
      PARTITION BY metric, kind, series, model, branch, program, rank, gpu ORDER BY point
      ROWS BETWEEN 1 FOLLOWING AND 2 FOLLOWING
    ), 0.0)
FROM scored
