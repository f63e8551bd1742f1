-- Which modules of the model cost most?
-- Backward counts for the module whose gradient it computes.
-- Capture: transformer_step
SELECT
  module_path, count(*) AS launches, round(sum(samples), 1) AS samples,
  round(100.0 * sum(samples) / sum(sum(samples)) OVER (), 1) AS percent
FROM call_path_cost
GROUP BY module_path
ORDER BY samples DESC, module_path
LIMIT 10
