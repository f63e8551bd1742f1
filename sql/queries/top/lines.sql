-- Python lines by cost
-- The cost of the kernels launched from each line. In backward, with the line whose gradient they compute.
-- All rows add up to all launches.
WITH placed AS (
  SELECT *, least($top + 1, row_number() OVER (
    ORDER BY $sort DESC NULLS LAST, samples DESC, time_ns DESC NULLS LAST, launch_count DESC, line, forward_line
  )) AS place
  FROM line_cost
)
SELECT
  sum(share) AS share,
  sum(memory_samples) / nullif(sum(samples), 0.0) AS memory_share,
  sum(samples) AS samples,
  sum(memory_samples) AS memory_samples,
  sum(time_ns) AS time_ns,
  sum(launch_count) AS launches,
  CASE WHEN place <= $top THEN coalesce(max(line), '(no Python line)')
    ELSE 'other (' || CAST(count(*) AS VARCHAR) || ')' END AS line,
  CASE WHEN place <= $top THEN max(forward_line) END AS forward_line
FROM placed
GROUP BY place
ORDER BY place
