-- One launch that two sampling runs measured, and the agreement of its samples between them.
--
-- The program compared with its replays, or replays with replays. A launch of the program has few samples: compare
-- `total_variation` with `chance_variation`, or complete kernels by `kernel_stall_share_agreement`.
CREATE VIEW stall_share_agreement (
  kernel_id,
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
SELECT
  grain_id, run_a, run_b, samples_a, samples_b, pc_count, top_pc_count, total_variation, chance_variation,
  rank_correlation
FROM sampling_agreement
WHERE grain = 'launch'
