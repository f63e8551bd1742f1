-- How sure is all of this?
-- How far the memory stalls are explained: samples of which each line holds.
-- Capture: inference_views
SELECT
  item, round(samples, 1) AS samples, round(memory_samples, 1) AS memory_samples,
  round(100.0 * samples / nullif(memory_samples, 0.0), 1) AS percent
FROM stall_coverage
ORDER BY ordinal
