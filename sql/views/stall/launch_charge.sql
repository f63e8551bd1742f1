-- Samples of one launch, attributed to one producer and target: `stall_charge` over all stalled instructions and reasons.
--
-- Views about launches read these rows instead of those of each stalled instruction, which are several times as many.
CREATE VIEW launch_charge (
  -- The run that took the samples.
  run_id,
  -- The launch.
  kernel_id,
  -- True for memory stalls.
  is_memory,
  -- The function of the producer.
  producer_function_id,
  -- The producer.
  producer_pc,
  -- Confidence of the producer, as in `producer`.
  confidence,
  -- tensor, or unattributed, as in `stall_charge`.
  charge,
  -- Target of the producer's lanes, as in `stall_charge`.
  target,
  -- The storage.
  storage_id,
  -- The tensor.
  tensor_id,
  -- The driver allocation of the lanes, outside any tensor.
  allocation_id,
  -- Attributed samples: fractions, if several targets share them.
  samples,
  -- Weight of one sample of the run, as in `cost_run`.
  scale
) AS
SELECT
  run_id, kernel_id, is_memory, producer_function_id, producer_pc, confidence, charge, target, storage_id, tensor_id,
  allocation_id, sum(samples), scale
FROM stall_charge
GROUP BY run_id, kernel_id, is_memory, producer_function_id, producer_pc, confidence, charge, target, storage_id,
  tensor_id, allocation_id, scale
