-- Kernels by cost
-- The cost of each kernel over its launches. memory: share of memory stalls. All rows add up to all launches.
WITH placed AS (
  SELECT k.*, n.short_kernel, least($top + 1, row_number() OVER (
    ORDER BY k.$sort DESC NULLS LAST, k.samples DESC, k.time_ns DESC NULLS LAST, k.launch_count DESC, k.kernel, k.function_id
  )) AS place
  FROM kernel_cost k
  LEFT JOIN kernel_name n ON n.function_id = k.function_id
)
SELECT
  sum(share) AS share,
  sum(memory_samples) / nullif(sum(samples), 0.0) AS memory_share,
  sum(samples) AS samples,
  sum(memory_samples) AS memory_samples,
  sum(time_ns) AS time_ns,
  sum(launch_count) AS launches,
  CASE WHEN place <= $top THEN max(short_kernel) ELSE 'other (' || CAST(count(*) AS VARCHAR) || ')' END AS kernel,
  -- For programs. Text omits it.
  CASE WHEN place <= $top THEN max(kernel) END AS full_name
FROM placed
GROUP BY place
ORDER BY place
