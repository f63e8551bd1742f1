-- Samples of one launch, stall reason and instruction in one sampling run, attributed to one target.
--
-- From every run, as counted: never add runs up. `stall_charge` is the cost. `samples = samples collected * W(producer)
-- * P(tensor | producer)`. Attributed and unattributed samples of a launch and a reason add up to its samples, which
-- `conservation_violation` checks. Producers join their accesses by (kernel_id, function_id, pc).
CREATE VIEW run_charge (
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
  samples
) AS
-- Most samples are of warps that wait for no memory. They need no producer.
SELECT
  s.run_id, s.kernel_id, s.function_id, s.stall_reason, r.is_memory, s.pc,
  CAST(NULL AS BIGINT UNSIGNED) AS producer_function_id, CAST(NULL AS INT UNSIGNED) AS producer_pc, 'exact' AS confidence,
  CASE r.class WHEN 'self' THEN 'self' END AS charge, CAST(NULL AS VARCHAR) AS target, CAST(NULL AS VARCHAR) AS evidence,
  CAST(NULL AS BIGINT UNSIGNED) AS storage_id, CAST(NULL AS BIGINT UNSIGNED) AS tensor_id,
  CAST(NULL AS BIGINT UNSIGNED) AS allocation_id, CAST(s.samples AS DOUBLE)
FROM stall_reason r
JOIN pc_sample s ON s.stall_reason = r.reason
WHERE r.class = 'self'
UNION ALL
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
  coalesce(w.remainder, CASE WHEN p.tensor_id IS NULL THEN 'no tensor' ELSE 'tensor' END),
  CASE WHEN w.remainder IS NOT NULL THEN NULL
       WHEN p.target IS NOT NULL THEN CAST(p.target AS VARCHAR)
       WHEN w.producer_space = 'none' THEN 'no memory'
       WHEN w.producer_space IN ('signal', 'mbarrier', 'tensor cores', 'arithmetic') THEN w.producer_space
       WHEN w.producer_space IN ('local', 'shared', 'constant', 'tensor memory') THEN 'not global'
       -- As in `launch_charge`.
       WHEN o.kernel_id IS NULL THEN 'not observed'
       WHEN w.producer_space = 'global' THEN 'no memory'
       WHEN w.producer_space = 'generic' THEN 'not global'
       ELSE 'not observed' END,
  p.evidence,
  p.storage_id,
  p.tensor_id,
  p.allocation_id,
  s.samples * w.weight * coalesce(x.factor, 1.0) * coalesce(p.share, 1.0)
FROM pc_sample s
JOIN stall_reason r ON r.reason = s.stall_reason
JOIN producer w ON w.function_id = s.function_id AND w.pc = s.pc AND w.stall_reason = s.stall_reason
LEFT JOIN producer_launch x
  ON x.kernel_id = s.kernel_id AND x.function_id = s.function_id AND x.pc = s.pc AND x.stall_reason = s.stall_reason
  AND x.producer_function_id = w.producer_function_id AND x.producer_pc = w.producer_pc
LEFT JOIN (
  SELECT l.kernel_id
  FROM launch l
  JOIN launch_observed v ON v.kernel_id = coalesce(l.accesses_of, l.kernel_id)
  WHERE v.is_whole
) o ON o.kernel_id = s.kernel_id
LEFT JOIN pc_tensor_share p
  ON p.kernel_id = s.kernel_id AND p.function_id = w.producer_function_id AND p.pc = w.producer_pc
WHERE r.class <> 'self' AND coalesce(x.factor, 1.0) > 0.0
