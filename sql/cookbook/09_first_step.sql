-- Does the first step cost more than the next ones?
-- One row is a step of the optimizer; launches outside any op have none.
-- Capture: transformer_step
SELECT
  p.step, count(*) AS launches, count(DISTINCT p.function_id) AS kernels, round(sum(p.samples), 1) AS samples,
  round(sum(p.memory_samples), 1) AS memory_samples, round(sum(p.samples) / count(*), 1) AS samples_per_launch
FROM call_path_cost p
GROUP BY p.step
ORDER BY p.step NULLS LAST
