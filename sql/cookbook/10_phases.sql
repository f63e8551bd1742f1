-- How much do forward, backward and the optimizer cost?
-- Capture: transformer_step
SELECT
  phase, sum(launch_count) AS launches, round(sum(samples), 1) AS samples, round(100.0 * sum(share), 1) AS percent,
  round(100.0 * sum(memory_samples) / nullif(sum(samples), 0.0), 1) AS memory_percent
FROM op_cost
GROUP BY phase
ORDER BY samples DESC
