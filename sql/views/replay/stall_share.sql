-- One instruction's part of the samples that one sampling run took of one launch.
--
-- From every run, of the program and of replays, as counted: to compare runs with each other.
CREATE VIEW stall_share (
  run_id,
  kernel_id,
  function_id,
  pc,
  -- Samples that found warps at it, for any reason, in all repeats.
  samples,
  -- Their part of the launch's samples in the run.
  share,
  -- Lower end of the 95 % confidence interval of that part (Wilson), for independent samples.
  low,
  -- Upper end of that interval.
  high
) AS
WITH taken AS (
  SELECT s.run_id, s.kernel_id, s.function_id, s.pc, CAST(sum(s.samples) AS DOUBLE) AS samples
  FROM pc_sample s
  JOIN sampled_launch m ON m.run_id = s.run_id AND m.kernel_id = s.kernel_id
  GROUP BY s.run_id, s.kernel_id, s.function_id, s.pc
  HAVING sum(s.samples) > 0
), part AS (
  -- z2: the square of 1.96, the normal distribution's 97.5 % point.
  SELECT *, sum(samples) OVER (PARTITION BY run_id, kernel_id) AS n, 3.841458820694124 AS z2 FROM taken
), wilson AS (
  SELECT
    *, samples / n AS share, (samples + z2 / 2) / (n + z2) AS middle,
    sqrt(z2 * (samples * (n - samples) / n + z2 / 4)) / (n + z2) AS reach
  FROM part
)
SELECT
  run_id, kernel_id, function_id, pc, samples, share, greatest(middle - reach, 0.0), least(middle + reach, 1.0)
FROM wilson
