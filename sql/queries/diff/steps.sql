-- Steps
-- The mean length of a step on a GPU in the first capture and in another, from measured timelines, and the GPU's busy
-- part. change_low and change_high: the 95 % confidence interval, from the spread of the steps of each capture (Welch).
WITH step AS (
  SELECT
    capture, run_id, program_step, CAST(avg(duration_ns) AS DOUBLE) AS ns, CAST(avg(busy_ns) AS DOUBLE) AS busy
  FROM every.program_step
  WHERE is_whole
  GROUP BY capture, run_id, program_step
), mean AS (
  SELECT
    capture, count(*) AS steps, avg(ns) AS ns, avg(busy) AS busy, stddev_samp(ns) AS deviation
  FROM step
  GROUP BY capture
  HAVING count(*) >= 2
), widened AS (
  -- Student's t of few steps, relative to the normal distribution.
  SELECT
    *,
    deviation * deviation / steps
      * power(1.0 + 1.21 / (steps - 1.0) + 1.44 / power(steps - 1.0, 2) + 1.3 / power(steps - 1.0, 3), 2) AS variance
  FROM mean
)
SELECT
  x.capture, b.steps AS base_steps, x.steps, b.ns AS base_ns, x.ns,
  b.busy / nullif(b.ns, 0.0) AS base_busy, x.busy / nullif(x.ns, 0.0) AS busy,
  x.ns - b.ns - 1.96 * sqrt(b.variance + x.variance) AS change_low,
  x.ns - b.ns + 1.96 * sqrt(b.variance + x.variance) AS change_high
FROM widened x
JOIN widened b ON b.capture = '$base'
WHERE x.capture <> '$base'
ORDER BY x.capture
