-- One charge: samples of a launch, a reason and a stalled instruction, as far as one target has to bear them.
--
-- `samples = samples of the view sample * W(producer) * P(tensor | producer)`; charges and remainders of a launch and a
-- reason sum to its samples. `cost_run` says which run they are from, `run_charge` has those of every run.
CREATE VIEW stall_charge (
  -- The run that took the samples.
  run_id,
  -- The launch.
  kernel_id,
  -- The function of the stalled instruction.
  function_id,
  -- Why it stalled.
  stall_reason,
  -- Whether that is a memory stall.
  is_memory,
  -- The stalled instruction.
  pc,
  -- The function of the instruction that it waited for.
  producer_function_id,
  -- The instruction that it waited for.
  producer_pc,
  -- How sure it is that it waited for that one, as in `producer`.
  confidence,
  -- tensor, or what is left over: no tensor (the producer is known, its tensor is not), no producer, self.
  charge,
  -- What the producer's lanes belong to, as in `pc_tensor`; not observed where this launch has no accesses of it; no
  -- memory where it accesses none; mbarrier where it waits for other warps, or for copies that are not known.
  target,
  -- How that is known: observed, derived (from tensor maps); null where nothing is.
  evidence,
  -- The storage.
  storage_id,
  -- The tensor.
  tensor_id,
  -- The allocation of the driver that the lanes lie in, outside any tensor.
  allocation_id,
  -- Samples charged: fractions, where several share them.
  samples,
  -- What one sample of the run counts as, as in `cost_run`: 1 where the program was sampled.
  scale
) AS
SELECT
  c.run_id, c.kernel_id, c.function_id, c.stall_reason, c.is_memory, c.pc, c.producer_function_id, c.producer_pc,
  c.confidence, c.charge, c.target, c.evidence, c.storage_id, c.tensor_id, c.allocation_id, c.samples * k.scale, k.scale
FROM run_charge c
JOIN cost_run k ON k.run_id = c.run_id AND k.kernel_id = c.kernel_id
