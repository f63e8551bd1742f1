-- One producer that warps of a launch waited for, and its accesses: the rows of `stall_charge` that have a producer,
-- seen from the producer.
CREATE VIEW producer_charge (
  run_id,
  kernel_id,
  function_id,
  pc,
  -- True if the stalls are memory stalls.
  is_memory,
  -- Target of its accesses, as in `stall_charge`.
  target,
  -- The tensor, storage or allocation. Null if it accessed none.
  object_id,
  -- The tensor. Null if it accessed none.
  tensor_id,
  -- Samples.
  samples
) AS
SELECT
  run_id, kernel_id, producer_function_id, producer_pc, is_memory, CAST(target AS VARCHAR),
  coalesce(tensor_id, storage_id, allocation_id), tensor_id, sum(samples)
FROM launch_charge
WHERE producer_pc IS NOT NULL
GROUP BY run_id, kernel_id, producer_function_id, producer_pc, is_memory, CAST(target AS VARCHAR),
  coalesce(tensor_id, storage_id, allocation_id), tensor_id
