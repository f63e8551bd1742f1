-- Which calls and modules cost most, including everything below them?
-- percent counts every launch below a name once, so the column adds up to more than 100. A launch in backward is below
-- the line that called backward(), and below the module whose gradient it computes.
-- Capture: transformer_step
SELECT
  level, name, path_count AS paths, launch_count AS launches, round(samples, 1) AS samples,
  round(100.0 * share, 1) AS percent, round(100.0 * memory_samples / nullif(samples, 0.0), 1) AS memory_percent
FROM path_flat
WHERE level IN ('python', 'module') AND name NOT LIKE 'torch/%' AND share < 0.99
ORDER BY samples DESC, level, name
LIMIT 10
