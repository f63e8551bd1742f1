-- Which of my Python lines keep the GPU busy, and which make it wait for memory?
-- In backward, forward_line is the line whose gradient runs.
-- Capture: transformer_step
SELECT
  line, forward_line, launch_count, round(samples, 1) AS samples, round(100.0 * share, 1) AS percent,
  round(100.0 * memory_share, 1) AS memory_percent
FROM line_cost
ORDER BY samples DESC, line, forward_line
LIMIT 10
