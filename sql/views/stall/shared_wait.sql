-- Samples of one launch and memory stall that wait for a read of shared memory, by the tensor that filled it.
--
-- A second attribution of rows of `launch_charge`, which stay unattributed there: a tile in shared memory is no tensor,
-- but its content is a tensor's. The samples of a launch, a stall and a read add up to those of `launch_charge`.
CREATE VIEW shared_wait (
  -- The run that took the samples.
  run_id,
  kernel_id,
  -- The memory stall.
  stall_reason,
  -- The function of the read.
  function_id,
  -- The instruction that reads shared memory.
  pc,
  -- copy, load, or computed (from loads of the tensor), as in `shared_fill`. unknown: no tensor is known.
  kind,
  -- Target of the fill, as in `pc_tensor_share`. Null if unknown.
  target,
  storage_id,
  tensor_id,
  allocation_id,
  -- Samples: fractions, if several tensors fill the same memory.
  samples
) AS
WITH waited AS (
  SELECT
    c.run_id, c.kernel_id, c.stall_reason, c.producer_function_id AS function_id, c.producer_pc AS pc,
    sum(c.samples) AS samples
  FROM launch_charge c
  JOIN instruction i ON i.function_id = c.producer_function_id AND i.pc = c.producer_pc
  WHERE c.is_memory AND i.memory_space = 'shared' AND i.memory_kind = 'read' AND i.class <> 'sync'
  GROUP BY c.run_id, c.kernel_id, c.stall_reason, c.producer_function_id, c.producer_pc
), filled AS (
  SELECT
    w.run_id, w.kernel_id, w.stall_reason, w.function_id, w.pc, s.kind, s.target, s.storage_id, s.tensor_id,
    s.allocation_id, w.samples * s.share AS samples
  FROM waited w
  JOIN shared_source s ON s.kernel_id = w.kernel_id AND s.function_id = w.function_id AND s.pc = w.pc
), known AS (
  SELECT run_id, kernel_id, stall_reason, function_id, pc, sum(samples) AS samples
  FROM filled
  GROUP BY run_id, kernel_id, stall_reason, function_id, pc
)
SELECT
  run_id, kernel_id, stall_reason, function_id, pc, CAST(kind AS VARCHAR), CAST(target AS VARCHAR), storage_id,
  tensor_id, allocation_id, samples
FROM filled
UNION ALL
SELECT
  w.run_id, w.kernel_id, w.stall_reason, w.function_id, w.pc, 'unknown', CAST(NULL AS VARCHAR),
  CAST(NULL AS BIGINT UNSIGNED), CAST(NULL AS BIGINT UNSIGNED), CAST(NULL AS BIGINT UNSIGNED),
  w.samples - coalesce(k.samples, 0.0)
FROM waited w
LEFT JOIN known k
  ON k.run_id = w.run_id AND k.kernel_id = w.kernel_id AND k.stall_reason = w.stall_reason
  AND k.function_id = w.function_id AND k.pc = w.pc
-- Shares add up to 1 within rounding.
WHERE w.samples - coalesce(k.samples, 0.0) > 1e-9 * w.samples
