-- The samples of all attributions together: one row, with the part that each fact holds for. The view `stall_coverage`
-- names the facts.
CREATE VIEW charge_sum (
  memory_samples,
  -- Samples of memory stalls with a producer.
  producer_samples,
  -- The same with a producer of confidence exact.
  exact_samples,
  -- Confidence refined.
  refined_samples,
  -- Several producers, divided by latency.
  latency_samples,
  -- Producers that share them.
  shared_samples,
  -- Confidence approximate.
  approximate_samples,
  -- Confidence low.
  low_samples,
  -- Samples attributed to a tensor.
  tensor_samples,
  -- Samples attributed to a tensor, a storage or an allocation.
  named_samples
) AS
SELECT
  sum(CASE WHEN is_memory THEN samples ELSE 0.0 END),
  sum(CASE WHEN charge IN ('tensor', 'no tensor') THEN samples ELSE 0.0 END),
  sum(CASE WHEN is_memory AND confidence = 'exact' THEN samples ELSE 0.0 END),
  sum(CASE WHEN is_memory AND confidence = 'refined' THEN samples ELSE 0.0 END),
  sum(CASE WHEN is_memory AND confidence = 'latency' THEN samples ELSE 0.0 END),
  sum(CASE WHEN is_memory AND confidence = 'shared' THEN samples ELSE 0.0 END),
  sum(CASE WHEN is_memory AND confidence = 'approximate' THEN samples ELSE 0.0 END),
  sum(CASE WHEN is_memory AND confidence = 'low' THEN samples ELSE 0.0 END),
  sum(CASE WHEN charge = 'tensor' THEN samples ELSE 0.0 END),
  sum(CASE WHEN charge = 'tensor' OR storage_id IS NOT NULL OR allocation_id IS NOT NULL THEN samples ELSE 0.0 END)
FROM launch_charge
