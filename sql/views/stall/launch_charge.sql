-- Samples of one launch and memory stall, attributed to one producer and target: `stall_charge` over all stalled
-- instructions. Stalls of all other reasons are one row.
--
-- Views about launches read these rows instead of those of each stalled instruction, which are several times as many.
-- Samples are added up by launch and producer before they meet targets.
CREATE VIEW launch_charge (
  -- The run that took the samples.
  run_id,
  kernel_id,
  -- The memory stall. Null for all reasons that are none.
  stall_reason,
  -- True for memory stalls.
  is_memory,
  producer_function_id,
  producer_pc,
  -- Confidence of the producer, as in `producer`.
  confidence,
  -- tensor, or unattributed, as in `stall_charge`.
  charge,
  -- Target of the producer's lanes, as in `stall_charge`.
  target,
  -- Evidence for the target, as in `stall_charge`.
  evidence,
  storage_id,
  tensor_id,
  -- The driver allocation of the lanes, outside any tensor.
  allocation_id,
  -- Attributed samples: fractions, if several targets share them.
  samples,
  -- Weight of one sample of the run, as in `cost_run`.
  scale
) AS
WITH caused AS (
  -- One number for all columns of a producer: samples are grouped by it.
  SELECT
    *,
    dense_rank() OVER (ORDER BY stall_reason, producer_function_id, producer_pc, confidence, remainder, unseen) AS number
  FROM (
    SELECT
      w.function_id, w.pc, w.stall_reason, w.weight, w.producer_function_id, w.producer_pc, w.confidence, w.remainder,
      w.producer_space,
      CASE WHEN w.remainder IS NOT NULL THEN NULL
           WHEN w.producer_space = 'none' THEN 'no memory'
           WHEN w.producer_space IN ('signal', 'mbarrier', 'tensor cores', 'arithmetic') THEN w.producer_space
           WHEN w.producer_space IN ('local', 'shared', 'constant', 'tensor memory') THEN 'not global'
           ELSE 'not observed' END AS unseen
    FROM producer w
    JOIN stall_reason r ON r.reason = w.stall_reason
    WHERE r.class <> 'self'
  )
), cause AS (
  SELECT
    number, stall_reason, producer_function_id, producer_pc, confidence, remainder, unseen,
    CASE max(producer_space) WHEN 'global' THEN 'no memory' WHEN 'generic' THEN 'not global' ELSE unseen END AS absent
  FROM caused
  GROUP BY number, stall_reason, producer_function_id, producer_pc, confidence, remainder, unseen
), whole AS (
  -- Launches that have no access of what they did not execute for any lane.
  SELECT l.kernel_id
  FROM launch l
  JOIN launch_observed o ON o.kernel_id = coalesce(l.accesses_of, l.kernel_id)
  WHERE o.is_whole
), awaited AS (
  SELECT s.run_id, s.kernel_id, c.number, sum(s.samples * c.weight * coalesce(x.factor, 1.0)) AS samples
  FROM stall_reason r
  JOIN pc_sample s ON s.stall_reason = r.reason
  JOIN caused c ON c.function_id = s.function_id AND c.pc = s.pc AND c.stall_reason = s.stall_reason
  LEFT JOIN producer_launch x
    ON x.kernel_id = s.kernel_id AND x.function_id = s.function_id AND x.pc = s.pc AND x.stall_reason = s.stall_reason
    AND x.producer_function_id = c.producer_function_id AND x.producer_pc = c.producer_pc
  WHERE r.class <> 'self' AND coalesce(x.factor, 1.0) > 0.0
  GROUP BY s.run_id, s.kernel_id, c.number
), own AS (
  -- Warps that wait for no memory.
  SELECT s.run_id, s.kernel_id, sum(s.samples) AS samples
  FROM launch_stall s
  JOIN stall_reason r ON r.reason = s.stall_reason
  WHERE r.class = 'self'
  GROUP BY s.run_id, s.kernel_id
)
SELECT
  a.run_id, a.kernel_id, CAST(c.stall_reason AS VARCHAR), true, c.producer_function_id, c.producer_pc, c.confidence,
  coalesce(c.remainder, CASE WHEN t.tensor_id IS NULL THEN 'no tensor' ELSE 'tensor' END),
  CASE WHEN c.remainder IS NULL
       THEN coalesce(CAST(t.target AS VARCHAR), CASE WHEN o.kernel_id IS NULL THEN c.unseen ELSE c.absent END) END,
  t.evidence, t.storage_id, t.tensor_id, t.allocation_id,
  a.samples * coalesce(t.share, 1.0) * k.scale, k.scale
FROM awaited a
JOIN cause c ON c.number = a.number
JOIN cost_run k ON k.run_id = a.run_id AND k.kernel_id = a.kernel_id
LEFT JOIN whole o ON o.kernel_id = a.kernel_id
LEFT JOIN pc_tensor_share t
  ON t.kernel_id = a.kernel_id AND t.function_id = c.producer_function_id AND t.pc = c.producer_pc
UNION ALL
SELECT
  o.run_id, o.kernel_id, CAST(NULL AS VARCHAR), false, CAST(NULL AS BIGINT UNSIGNED), CAST(NULL AS INT UNSIGNED), 'exact',
  'self',
  CAST(NULL AS VARCHAR), CAST(NULL AS VARCHAR), CAST(NULL AS BIGINT UNSIGNED), CAST(NULL AS BIGINT UNSIGNED),
  CAST(NULL AS BIGINT UNSIGNED), o.samples * k.scale, k.scale
FROM own o
JOIN cost_run k ON k.run_id = o.run_id AND k.kernel_id = o.kernel_id
