-- Samples of one launch by stall reason that count as cost: `sample` over all instructions.
--
-- Views about launches read these few rows instead of all samples.
CREATE VIEW launch_sample (
  -- The run that took the samples.
  run_id,
  kernel_id,
  -- The reason why warps stalled.
  stall_reason,
  -- Samples that found a warp in this state.
  samples,
  samples_not_issued
) AS
SELECT s.run_id, s.kernel_id, s.stall_reason, s.samples * k.scale, s.samples_not_issued * k.scale
FROM launch_stall s
JOIN cost_run k ON k.run_id = s.run_id AND k.kernel_id = s.kernel_id
