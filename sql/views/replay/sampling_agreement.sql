-- One item that two sampling runs measured, and the agreement of its samples between them.
--
-- The program compared with its replays, or replays with replays. A launch of the program has few samples: compare
-- `total_variation` with `chance_variation`, or complete kernels. Of these, each launch counts once, whatever its number of replays.
CREATE VIEW sampling_agreement (
  -- Compared item: launch, or kernel (its launches that both runs measured, together).
  grain,
  -- The kernel_id of the launch, or the function_id of the kernel.
  grain_id,
  -- The run with the smaller run_id: the program's, if there is one.
  run_a,
  -- The other.
  run_b,
  -- Samples that run_a counted.
  samples_a,
  -- Samples that run_b counted.
  samples_b,
  -- Instructions with samples in either run.
  pc_count,
  -- Instructions that together hold 90 % of the samples in either run, including ties.
  top_pc_count,
  -- Half the sum of the differences between the two shares of each instruction: 0 if they agree, 1 if they share
  -- nothing.
  total_variation,
  -- Its expected value if only random variation separates the runs, for independent samples.
  chance_variation,
  -- Spearman's rank correlation of the top instructions by their samples, ties averaged. Null for fewer than two, or if
  -- one run has only ties.
  rank_correlation
) AS
WITH whole AS (
  SELECT
    *,
    sum(mean_a) OVER (PARTITION BY grain, grain_id, run_a, run_b) AS all_a,
    sum(mean_b) OVER (PARTITION BY grain, grain_id, run_a, run_b) AS all_b,
    sum(samples_a) OVER (PARTITION BY grain, grain_id, run_a, run_b) AS count_a,
    sum(samples_b) OVER (PARTITION BY grain, grain_id, run_a, run_b) AS count_b
  FROM sampled_pair
), ordered AS (
  -- Sums up to and including an instruction and its ties, and sums of the ties alone: the difference ranks before them.
  SELECT
    *,
    sum(mean_a) OVER (PARTITION BY grain, grain_id, run_a, run_b ORDER BY mean_a DESC) AS up_to_a,
    sum(mean_b) OVER (PARTITION BY grain, grain_id, run_a, run_b ORDER BY mean_b DESC) AS up_to_b,
    sum(mean_a) OVER (PARTITION BY grain, grain_id, run_a, run_b, mean_a) AS equal_a,
    sum(mean_b) OVER (PARTITION BY grain, grain_id, run_a, run_b, mean_b) AS equal_b
  FROM whole
  WHERE all_a > 0 AND all_b > 0
), top AS (
  SELECT
    *,
    mean_a > 0 AND up_to_a - equal_a < 0.9 * all_a - 1e-9 * all_a
      OR mean_b > 0 AND up_to_b - equal_b < 0.9 * all_b - 1e-9 * all_b AS is_top,
    mean_a / all_a AS share_a, mean_b / all_b AS share_b,
    (samples_a + samples_b) / (count_a + count_b) AS pooled
  FROM ordered
), ranked AS (
  -- The average rank of ties: that of the first, plus half the number of the rest.
  SELECT
    *,
    rank() OVER (PARTITION BY grain, grain_id, run_a, run_b, is_top ORDER BY mean_a)
      + (count(*) OVER (PARTITION BY grain, grain_id, run_a, run_b, is_top, mean_a) - 1) / 2.0 AS rank_a,
    rank() OVER (PARTITION BY grain, grain_id, run_a, run_b, is_top ORDER BY mean_b)
      + (count(*) OVER (PARTITION BY grain, grain_id, run_a, run_b, is_top, mean_b) - 1) / 2.0 AS rank_b
  FROM top
), summed AS (
  SELECT
    grain, grain_id, run_a, run_b, max(count_a) AS count_a, max(count_b) AS count_b,
    count(*) AS pcs,
    sum(CASE WHEN is_top THEN 1.0 ELSE 0.0 END) AS n,
    0.5 * sum(abs(share_a - share_b)) AS variation,
    -- The mean absolute value of a normal deviation is sqrt(2 / pi) of its standard deviation. With less than one
    -- expected sample, it is nearer to twice the share.
    0.5 * sum(least(
      sqrt(2 / pi() * greatest(pooled * (1 - pooled), 0.0) * (1 / count_a + 1 / count_b)), 2 * pooled
    )) AS chance,
    sum(CASE WHEN is_top THEN rank_a ELSE 0.0 END) AS a,
    sum(CASE WHEN is_top THEN rank_b ELSE 0.0 END) AS b,
    sum(CASE WHEN is_top THEN rank_a * rank_a ELSE 0.0 END) AS aa,
    sum(CASE WHEN is_top THEN rank_b * rank_b ELSE 0.0 END) AS bb,
    sum(CASE WHEN is_top THEN rank_a * rank_b ELSE 0.0 END) AS ab
  FROM ranked
  GROUP BY grain, grain_id, run_a, run_b
)
SELECT
  grain, grain_id, run_a, run_b, count_a, count_b, pcs, CAST(n AS BIGINT), variation, chance,
  (n * ab - a * b) / nullif(sqrt(n * aa - a * a) * sqrt(n * bb - b * b), 0.0)
FROM summed
