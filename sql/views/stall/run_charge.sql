-- One charge in one sampling run: samples of a launch, a reason and a stalled instruction, as far as one target bears
-- them.
--
-- Of every run, as it counted: runs are never to be added up. `stall_charge` is what things cost.
-- `samples = delivered samples * W(producer) * P(tensor | producer)`; charges and remainders of a launch and a reason
-- sum to its samples, which `conservation_violation` checks. Producers meet their accesses by (kernel_id, function_id,
-- pc).
CREATE VIEW run_charge (
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
  samples
) AS
SELECT
  s.run_id,
  s.kernel_id,
  s.function_id,
  s.stall_reason,
  r.is_memory,
  s.pc,
  w.producer_function_id,
  w.producer_pc,
  w.confidence,
  CASE WHEN w.remainder IS NOT NULL THEN w.remainder WHEN p.tensor_id IS NULL THEN 'no tensor' ELSE 'tensor' END,
  CASE WHEN w.remainder IS NOT NULL THEN NULL
       WHEN p.target IS NOT NULL THEN CAST(p.target AS VARCHAR)
       WHEN w.producer_space = 'none' THEN 'no memory'
       WHEN w.producer_space = 'mbarrier' THEN 'mbarrier'
       WHEN w.producer_space IN ('local', 'shared', 'constant', 'tensor memory') THEN 'not global'
       ELSE 'not observed' END,
  p.evidence,
  p.storage_id,
  p.tensor_id,
  p.allocation_id,
  s.samples * w.weight * coalesce(p.share, 1.0)
FROM pc_sample s
JOIN stall_reason r ON r.reason = s.stall_reason
JOIN producer w ON w.function_id = s.function_id AND w.pc = s.pc AND w.stall_reason = s.stall_reason
LEFT JOIN pc_tensor_share p
  ON p.kernel_id = s.kernel_id AND p.function_id = w.producer_function_id AND p.pc = w.producer_pc
