-- Samples of one launch in one run by stall reason, over all instructions: counts, as in `pc_sample`.
--
-- Views about launches read these few rows instead of all samples.
CREATE VIEW launch_stall (
  -- The run that took the samples.
  run_id,
  kernel_id,
  -- The reason why warps stalled.
  stall_reason,
  -- Samples that found a warp in this state.
  samples,
  samples_not_issued
) AS
SELECT run_id, kernel_id, stall_reason, sum(samples), sum(samples_not_issued)
FROM pc_sample
GROUP BY run_id, kernel_id, stall_reason
