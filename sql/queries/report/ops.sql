-- Operators
-- Samples in kernels that each operator launched, by the phase of the training step.
WITH placed AS (
  SELECT *, least($top + 1, row_number() OVER (ORDER BY samples DESC, time_ns DESC NULLS LAST, launch_count DESC, op, phase)) AS place
  FROM op_cost
)
SELECT
  sum(share) AS share,
  sum(memory_samples) / nullif(sum(samples), 0.0) AS memory_share,
  sum(samples) AS samples,
  sum(time_ns) AS time_ns,
  sum(launch_count) AS launches,
  CASE WHEN place <= $top THEN coalesce(max(op), '(outside any operator)')
    ELSE 'other (' || CAST(count(*) AS VARCHAR) || ')' END AS op,
  CASE WHEN place <= $top THEN max(phase) END AS phase
FROM placed
GROUP BY place
ORDER BY place
