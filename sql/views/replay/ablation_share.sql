-- One measured experiment and its shares in the launch: of the time that all experiments of its target save, and of the
-- samples that their instructions cost.
--
-- Launches with two or more such experiments, one of which saves time beyond chance: the lower end of its interval is
-- positive. Savings below 0 count as 0.
CREATE VIEW ablation_share (
  -- The run of the experiments.
  run_id,
  kernel_id,
  -- The experiment.
  experiment,
  -- Accesses that are left out, as in `ablation_cost`.
  target,
  is_cold,
  -- Its share of the time that these experiments save.
  saved_share,
  -- Lower end of the 95 % confidence interval of its saving, as a share of the same time.
  saved_share_low,
  -- Upper end of it.
  saved_share_high,
  -- Its share of the samples that their instructions cost, as in `traffic_charge`.
  charged_share,
  -- Its share of the samples that wait for their instructions. Null without such samples.
  waited_share,
  -- Its rank by time in the launch, from 1.
  saved_rank,
  -- Its rank by samples in the launch, from 1.
  charged_rank,
  -- Its rank by samples that wait, from 1.
  waited_rank
) AS
WITH measured AS (
  SELECT
    run_id, kernel_id, experiment, target, is_cold, saved_low_ns, saved_high_ns, samples, waited_samples,
    greatest(saved_ns, 0.0) AS saved
  FROM ablation_cost
  WHERE saved_ns IS NOT NULL AND charged_share IS NOT NULL
), summed AS (
  SELECT
    *,
    count(*) OVER launch AS experiments,
    max(saved_low_ns) OVER launch AS most_low_ns,
    sum(saved) OVER launch AS all_saved,
    sum(samples) OVER launch AS all_samples,
    sum(waited_samples) OVER launch AS all_waited_samples
  FROM measured
  WINDOW launch AS (PARTITION BY run_id, kernel_id, target, is_cold)
)
SELECT
  run_id, kernel_id, experiment, target, is_cold, saved / all_saved,
  greatest(saved_low_ns, 0.0) / all_saved, greatest(saved_high_ns, 0.0) / all_saved, samples / all_samples,
  waited_samples / nullif(all_waited_samples, 0.0),
  rank() OVER (PARTITION BY run_id, kernel_id, target, is_cold ORDER BY saved DESC),
  rank() OVER (PARTITION BY run_id, kernel_id, target, is_cold ORDER BY samples DESC),
  rank() OVER (PARTITION BY run_id, kernel_id, target, is_cold ORDER BY waited_samples DESC)
FROM summed
WHERE experiments > 1 AND most_low_ns > 0.0 AND all_saved > 0.0 AND all_samples > 0.0
