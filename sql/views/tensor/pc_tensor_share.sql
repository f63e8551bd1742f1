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
WITH total AS (
  SELECT kernel_id, function_id, pc, CAST(sum(sectors) AS DOUBLE) AS amount
  FROM pc_tensor
  GROUP BY kernel_id, function_id, pc
  HAVING sum(sectors) > 0
), observed AS (
  SELECT
    kernel_id, function_id, pc, target, storage_id, tensor_id, allocation_id, CAST(evidence AS VARCHAR) AS evidence,
    CAST(sum(sectors) AS DOUBLE) AS amount
  FROM pc_tensor
  GROUP BY kernel_id, function_id, pc, target, evidence, storage_id, tensor_id, allocation_id
  HAVING sum(sectors) > 0
), mapped AS (
  -- A copy with several possible tensor maps counts for each of them.
  SELECT
    l.kernel_id, u.function_id, u.pc, t.target, t.storage_id, t.tensor_id, t.allocation_id, sum(t.share) AS amount
  FROM tensor_map_use u
  JOIN launch l ON l.function_id = u.kernel_function_id
  JOIN tensor_map_tensor t ON t.kernel_id = l.kernel_id AND t.parameter_offset = u.parameter_offset
  GROUP BY l.kernel_id, u.function_id, u.pc, t.target, t.storage_id, t.tensor_id, t.allocation_id
  UNION ALL
  SELECT l.kernel_id, u.function_id, u.pc, t.target, t.storage_id, t.tensor_id, t.allocation_id, 1.0
  FROM pointer_use u
  JOIN launch l ON l.function_id = u.kernel_function_id
  JOIN pointer_tensor t ON t.kernel_id = l.kernel_id AND t.parameter_offset = u.parameter_offset
  GROUP BY l.kernel_id, u.function_id, u.pc, t.target, t.storage_id, t.tensor_id, t.allocation_id
)
SELECT
  o.kernel_id, o.function_id, o.pc, o.target, o.evidence, o.storage_id, o.tensor_id, o.allocation_id,
  o.amount / t.amount
FROM observed o
-- Most instructions of a launch have one target. A window over such small groups costs five times as much as a join.
JOIN total t ON t.kernel_id = o.kernel_id AND t.function_id = o.function_id AND t.pc = o.pc
UNION ALL
SELECT
  m.kernel_id, m.function_id, m.pc, m.target, 'derived', m.storage_id, m.tensor_id, m.allocation_id,
  m.amount / sum(m.amount) OVER (PARTITION BY m.kernel_id, m.function_id, m.pc)
FROM mapped m
LEFT ANTI JOIN total t ON t.kernel_id = m.kernel_id AND t.function_id = m.function_id AND t.pc = m.pc
