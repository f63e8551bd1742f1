-- Which tensors does the GPU wait for most?
-- memory_percent is the share of all samples of memory stalls, low to high its 95 % confidence interval. Rows without a
-- tensor are unattributed stalls. All rows add up to the samples.
-- Capture: inference_views
SELECT
  tensor_id, charge, coalesce(name, op || '()') AS tensor, shape, stalled_line,
  round(samples, 1) AS samples, round(samples_low) AS low, round(samples_high) AS high,
  round(100.0 * memory_share, 1) AS memory_percent
FROM tensor_stall_cost
ORDER BY samples DESC, tensor
LIMIT 8
