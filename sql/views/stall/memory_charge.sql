-- Samples of one launch, memory stall and instruction, attributed to one target: the rows of `stall_charge` that are
-- memory stalls. Most samples are of other stalls.
CREATE VIEW memory_charge (
  -- The run that took the samples.
  run_id,
  kernel_id,
  -- The function of the stalled instruction.
  function_id,
  stall_reason,
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
SELECT * EXCEPT (is_memory) FROM stall_charge WHERE is_memory
