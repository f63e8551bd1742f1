-- Samples that count as cost: those of `pc_sample` that `cost_run` takes, scaled so that launches compare.
--
-- They are what one execution at the smallest period in use would have given: where the program was sampled with one
-- period, what was counted. `pc_sample` holds what each run counted.
CREATE VIEW sample (
  -- The run that took them.
  run_id,
  -- The launch.
  kernel_id,
  -- The function that holds the instruction.
  function_id,
  -- The instruction.
  pc,
  -- Why warps did not go on.
  stall_reason,
  -- Samples that found a warp so.
  samples,
  -- Those among cycles in which the scheduler issued nothing; never added to `samples`.
  samples_not_issued
) AS
SELECT
  s.run_id, s.kernel_id, s.function_id, s.pc, s.stall_reason, s.samples * k.scale, s.samples_not_issued * k.scale
FROM pc_sample s
JOIN cost_run k ON k.run_id = s.run_id AND k.kernel_id = s.kernel_id
