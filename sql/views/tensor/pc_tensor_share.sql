-- Share of one target in the accesses of an instruction of a launch: P(target | launch, function, pc).
--
-- By sectors of accesses: of all requests, of a sample of blocks, or of a model launch. For tensor-map copies, which no
-- instrument observes, by the ranges of their tensor maps. For bulk copies, by the pointers among the launch's parameters
-- that their addresses are computed from, each with the same share. The shares of an instruction add up to 1, shares
-- outside tensors included.
CREATE VIEW pc_tensor_share (
  -- The launch.
  kernel_id,
  -- The function that holds the instruction.
  function_id,
  -- The instruction.
  pc,
  -- Target of the lanes, as in `pc_tensor`.
  target,
  -- Evidence for the target: observed, model launch (as in `pc_tensor`), derived (from tensor maps and
  -- pointers).
  evidence,
  -- The storage.
  storage_id,
  -- The tensor.
  tensor_id,
  -- The driver allocation, outside any tensor.
  allocation_id,
  -- Its share.
  share
) AS
WITH observed AS (
  SELECT
    kernel_id, function_id, pc, target, storage_id, tensor_id, allocation_id, CAST(evidence AS VARCHAR) AS evidence,
    CAST(sum(sectors) AS DOUBLE) AS amount
  FROM pc_tensor
  GROUP BY kernel_id, function_id, pc, target, evidence, storage_id, tensor_id, allocation_id
  HAVING sum(sectors) > 0
), mapped AS (
  -- A copy with several possible tensor maps counts for each of them.
  SELECT
    l.kernel_id, u.function_id, u.pc, t.target, t.storage_id, t.tensor_id, t.allocation_id, 'derived' AS evidence,
    sum(t.share) AS amount
  FROM tensor_map_use u
  JOIN launch l ON l.function_id = u.kernel_function_id
  JOIN tensor_map_tensor t ON t.kernel_id = l.kernel_id AND t.parameter_offset = u.parameter_offset
  GROUP BY l.kernel_id, u.function_id, u.pc, t.target, t.storage_id, t.tensor_id, t.allocation_id
  UNION ALL
  SELECT
    l.kernel_id, u.function_id, u.pc, t.target, t.storage_id, t.tensor_id, t.allocation_id, 'derived', 1.0
  FROM pointer_use u
  JOIN launch l ON l.function_id = u.kernel_function_id
  JOIN pointer_tensor t ON t.kernel_id = l.kernel_id AND t.parameter_offset = u.parameter_offset
  GROUP BY l.kernel_id, u.function_id, u.pc, t.target, t.storage_id, t.tensor_id, t.allocation_id
), known AS (
  SELECT * FROM observed
  UNION ALL
  SELECT *
  FROM mapped m
  LEFT ANTI JOIN observed o ON o.kernel_id = m.kernel_id AND o.function_id = m.function_id AND o.pc = m.pc
)
SELECT
  kernel_id, function_id, pc, target, evidence, storage_id, tensor_id, allocation_id,
  amount / sum(amount) OVER (PARTITION BY kernel_id, function_id, pc)
FROM known
