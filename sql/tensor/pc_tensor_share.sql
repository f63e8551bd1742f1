-- One target's part of what an instruction of a launch accessed: P(target | launch, function, pc), by sectors.
--
-- The parts of an instruction sum to 1, those that are no tensor included.
CREATE VIEW pc_tensor_share (
  -- The launch.
  kernel_id,
  -- The function that holds the instruction.
  function_id,
  -- The instruction.
  pc,
  -- What the lanes belong to, as in `pc_tensor`.
  target,
  -- The storage.
  storage_id,
  -- The tensor.
  tensor_id,
  -- The allocation of the driver, outside any tensor.
  allocation_id,
  -- Its part.
  share
) AS
WITH summed AS (
  SELECT
    kernel_id, function_id, pc, target, storage_id, tensor_id, allocation_id,
    CAST(sum(sectors) AS DOUBLE) AS sectors
  FROM pc_tensor
  GROUP BY kernel_id, function_id, pc, target, storage_id, tensor_id, allocation_id
)
SELECT
  kernel_id, function_id, pc, target, storage_id, tensor_id, allocation_id,
  sectors / sum(sectors) OVER (PARTITION BY kernel_id, function_id, pc)
FROM summed
WHERE sectors > 0
