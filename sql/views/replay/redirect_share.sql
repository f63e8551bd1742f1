-- One measured object and its shares in the launch: of the time that device memory costs for all such objects, and of the
-- samples that they cost.
--
-- Launches with two or more such objects, one of which saves time beyond chance: the lower end of its interval is
-- positive. Savings below 0 count as 0.
CREATE VIEW redirect_share (
  -- The run of the experiments.
  run_id,
  kernel_id,
  -- The experiment.
  experiment,
  is_cold,
  -- True if the kernel copies by tensor maps or by bulk copies.
  has_copies,
  -- Its share of the time that these experiments save.
  saved_share,
  -- Lower end of the 95 % confidence interval of its saving, as a share of the same time.
  saved_share_low,
  -- Upper end of it.
  saved_share_high,
  -- Its share of the samples that these objects cost, as in `traffic_charge`.
  charged_share,
  -- Its rank by time in the launch, from 1.
  saved_rank,
  -- Its rank by samples in the launch, from 1.
  charged_rank
) AS
WITH measured AS (
  SELECT
    run_id, kernel_id, experiment, is_cold, has_copies, saved_low_ns, saved_high_ns, samples,
    greatest(saved_ns, 0.0) AS saved
  FROM redirect_cost
  WHERE target = 'object' AND saved_ns IS NOT NULL AND charged_share IS NOT NULL
), summed AS (
  SELECT
    *,
    count(*) OVER launch AS objects,
    max(saved_low_ns) OVER launch AS most_low_ns,
    sum(saved) OVER launch AS all_saved,
    sum(samples) OVER launch AS all_samples
  FROM measured
  WINDOW launch AS (PARTITION BY run_id, kernel_id, is_cold)
)
SELECT
  run_id, kernel_id, experiment, is_cold, has_copies, saved / all_saved,
  greatest(saved_low_ns, 0.0) / all_saved, greatest(saved_high_ns, 0.0) / all_saved, samples / all_samples,
  rank() OVER (PARTITION BY run_id, kernel_id, is_cold ORDER BY saved DESC),
  rank() OVER (PARTITION BY run_id, kernel_id, is_cold ORDER BY samples DESC)
FROM summed
WHERE objects > 1 AND most_low_ns > 0.0 AND all_saved > 0.0 AND all_samples > 0.0
