-- Share of one target in the accesses of an instruction of a launch: P(target | launch, function, pc).
--
-- By sectors of accesses: of all requests, of a sample of blocks, or of a model launch. For tensor-map copies, which no
-- instrument observes, by the ranges of their tensor maps. For bulk copies, by the pointers among the launch's parameters
-- that their addresses are computed from, each with the same share. For tensor maps with a pointer from an array in device
-- memory, by the pointers that the last launch before stored there. The shares of an instruction add up to 1, shares
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
), made AS (
  -- The tensor map has a pointer of an array in device memory: the last launch that stored pointers there knows them.
  SELECT l.kernel_id, u.function_id, u.pc, s.stored_offset, max(k.kernel_id) AS made_by
  FROM pointer_array_use u
  JOIN launch l ON l.function_id = u.kernel_function_id
  JOIN pointer_tensor a ON a.kernel_id = l.kernel_id AND a.parameter_offset = u.parameter_offset
  JOIN pointer_tensor w ON w.address = a.address AND w.kernel_id < a.kernel_id
  JOIN launch k ON k.kernel_id = w.kernel_id AND k.run_id = l.run_id
  JOIN pointer_store s ON s.kernel_function_id = k.function_id AND s.parameter_offset = w.parameter_offset
  GROUP BY l.kernel_id, u.function_id, u.pc, s.stored_offset
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
  UNION ALL
  SELECT m.kernel_id, m.function_id, m.pc, t.target, t.storage_id, t.tensor_id, t.allocation_id, 1.0
  FROM made m
  JOIN pointer_tensor t ON t.kernel_id = m.made_by AND t.parameter_offset = m.stored_offset
  GROUP BY m.kernel_id, m.function_id, m.pc, t.target, t.storage_id, t.tensor_id, t.allocation_id
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
