-- One launch that two sampling runs measured, and how far they agree where its warps were found.
--
-- The program against its replays, or replays against replays. A launch of the program has few samples: compare
-- `total_variation` with `chance_variation`, or whole kernels by `kernel_stall_share_agreement`.
CREATE VIEW stall_share_agreement (
  -- The launch.
  kernel_id,
  -- The run with the smaller run_id: the program's, where one is.
  run_a,
  -- The other.
  run_b,
  -- Samples that run_a counted.
  samples_a,
  -- Samples that run_b counted.
  samples_b,
  -- Instructions that either found warps at.
  pc_count,
  -- Those that together hold 90 % of the samples in either run; with one, all that have as many samples.
  top_pc_count,
  -- Half the sum of the differences between the two shares of each instruction: 0 where they agree, 1 where they share
  -- nothing.
  total_variation,
  -- What that would be on average if only chance set the runs apart, for samples that are independent of each other.
  chance_variation,
  -- Spearman's rank correlation of the top instructions by their samples, ties averaged; null where there are fewer
  -- than two, or where one run tells none apart.
  rank_correlation
) AS
SELECT
  grain_id, run_a, run_b, samples_a, samples_b, pc_count, top_pc_count, total_variation, chance_variation,
  rank_correlation
FROM sampling_agreement
WHERE grain = 'launch'
