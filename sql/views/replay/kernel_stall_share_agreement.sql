-- One kernel of which two sampling runs measured launches, and how far they agree where its warps were found.
--
-- Launches that both measured, together, each counted once however often it was replayed.
CREATE VIEW kernel_stall_share_agreement (
  -- The kernel.
  function_id,
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
WHERE grain = 'kernel'
