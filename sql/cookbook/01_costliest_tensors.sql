-- Which tensors does the GPU wait for most?
-- One row is one tensor; memory_share is its part of all samples of memory stalls, low to high where 95 of 100
-- repetitions would lie. Rows without a tensor are stalls that no tensor bears, so that the samples add up.
-- Capture: inference_views
SELECT
  charge, coalesce(name, 'result of ' || op) AS tensor, shape, stalled_line,
  round(samples, 1) AS samples, round(samples_low) AS low, round(samples_high) AS high,
  round(100.0 * memory_share, 1) AS memory_percent
FROM tensor_stall_cost
ORDER BY samples DESC, tensor
LIMIT 8
