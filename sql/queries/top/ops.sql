-- Operators by cost
-- The cost of the kernels of each operator, by the phase of the training step. All rows add up to all launches.
WITH placed AS (
  SELECT *, least($top + 1, row_number() OVER (
    ORDER BY $sort DESC NULLS LAST, samples DESC, time_ns DESC NULLS LAST, launch_count DESC, op, phase
  )) AS place
  FROM op_cost
)
SELECT
  sum(share) AS share,
  sum(memory_samples) / nullif(sum(samples), 0.0) AS memory_share,
  sum(samples) AS samples,
  sum(memory_samples) AS memory_samples,
  sum(time_ns) AS time_ns,
  sum(launch_count) AS launches,
  CASE WHEN place <= $top THEN coalesce(max(op), '(outside any operator)')
    ELSE 'other (' || CAST(count(*) AS VARCHAR) || ')' END AS op,
  CASE WHEN place <= $top THEN max(phase) END AS phase
FROM placed
GROUP BY place
ORDER BY place
