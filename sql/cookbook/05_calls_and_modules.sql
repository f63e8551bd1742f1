-- Which calls and modules lead to the most cost, with all that runs below them?
-- percent counts every launch that comes through a name once, so that the column adds up to more than 100. A launch
-- of backward is below the line that called backward(), and below the module whose gradient it computes.
-- Capture: transformer_step
SELECT
  level, name, path_count AS paths, launch_count AS launches, round(samples, 1) AS samples,
  round(100.0 * share, 1) AS percent, round(100.0 * memory_samples / nullif(samples, 0.0), 1) AS memory_percent
FROM path_flat
WHERE level IN ('python', 'module') AND name NOT LIKE 'torch/%' AND share < 0.99
ORDER BY samples DESC, level, name
LIMIT 10
