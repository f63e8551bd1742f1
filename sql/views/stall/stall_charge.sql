-- Samples of one launch, stall reason and instruction, attributed to one target.
--
-- `samples = samples of the view sample * W(producer) * P(tensor | producer)`. Attributed and unattributed samples of a
-- launch and a reason add up to its samples. `cost_run` has the run that they come from, `run_charge` has those of
-- every run.
CREATE VIEW stall_charge (
  -- The run that took the samples.
  run_id,
  kernel_id,
  -- The function of the stalled instruction.
  function_id,
  stall_reason,
  is_memory,
  -- The stalled instruction.
  pc,
  producer_function_id,
  producer_pc,
  -- Confidence of the producer, as in `producer`.
  confidence,
  -- tensor, or unattributed: no tensor (the producer is known, its tensor is not), no producer, self.
  charge,
  -- Target of the producer's lanes, as in `pc_tensor`. not observed: this launch has no accesses of it. no memory: it
  -- accesses none, or none in this launch. signal: other warps arrive at an mbarrier by it. mbarrier: no signal of the
  -- awaited one is known.
  target,
  -- Evidence for the target: observed, model launch (as in `pc_tensor`), derived (from tensor maps). Null without a target.
  evidence,
  storage_id,
  tensor_id,
  -- The driver allocation of the lanes, outside any tensor.
  allocation_id,
  -- Attributed samples: fractions, if several targets share them.
  samples,
  -- Weight of one sample of the run, as in `cost_run`: 1 if the program was sampled.
  scale
) AS
SELECT
  c.run_id, c.kernel_id, c.function_id, c.stall_reason, c.is_memory, c.pc, c.producer_function_id, c.producer_pc,
  c.confidence, c.charge, c.target, c.evidence, c.storage_id, c.tensor_id, c.allocation_id, c.samples * k.scale, k.scale
FROM run_charge c
JOIN cost_run k ON k.run_id = c.run_id AND k.kernel_id = c.kernel_id
