-- Samples that count as cost: rows of `pc_sample` chosen by `cost_run`, scaled to make launches comparable.
--
-- Values are those of one execution at the smallest period in use. For a program sampled with one period, they equal
-- the counts. `pc_sample` holds the counts of each run.
CREATE VIEW sample (
  -- The run that took the samples.
  run_id,
  kernel_id,
  function_id,
  pc,
  -- The reason why warps stalled.
  stall_reason,
  -- Samples that found a warp in this state.
  samples,
  samples_not_issued
) AS
SELECT
  s.run_id, s.kernel_id, s.function_id, s.pc, s.stall_reason, s.samples * k.scale, s.samples_not_issued * k.scale
FROM pc_sample s
JOIN cost_run k ON k.run_id = s.run_id AND k.kernel_id = s.kernel_id
