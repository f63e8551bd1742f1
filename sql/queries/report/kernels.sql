-- Kernels
-- Samples taken in each kernel. memory: share of memory stalls. main stall: the most frequent stall reason.
WITH reason AS (
  SELECT l.function_id, s.stall_reason, sum(s.samples) AS samples
  FROM launch_sample s
  JOIN launch l ON l.kernel_id = s.kernel_id
  WHERE s.stall_reason <> 'selected'
  GROUP BY l.function_id, s.stall_reason
), main AS (
  SELECT function_id, first_value(stall_reason ORDER BY samples DESC, stall_reason) AS main_stall
  FROM reason
  GROUP BY function_id
), placed AS (
  SELECT k.*, n.short_kernel, m.main_stall, least($top + 1, row_number() OVER (
    ORDER BY k.samples DESC, k.time_ns DESC NULLS LAST, k.launch_count DESC, k.kernel, k.function_id
  )) AS place
  FROM kernel_cost k
  LEFT JOIN kernel_name n ON n.function_id = k.function_id
  LEFT JOIN main m ON m.function_id = k.function_id
)
SELECT
  sum(share) AS share,
  sum(memory_samples) / nullif(sum(samples), 0.0) AS memory_share,
  sum(samples) AS samples,
  sum(time_ns) AS time_ns,
  sum(launch_count) AS launches,
  CASE WHEN place <= $top THEN max(main_stall) END AS main_stall,
  CASE WHEN place <= $top THEN max(short_kernel) ELSE 'other (' || CAST(count(*) AS VARCHAR) || ')' END AS kernel,
  -- For programs, and for the page's links. The text report omits them.
  CASE WHEN place <= $top THEN max(kernel) END AS full_name,
  CASE WHEN place <= $top THEN max(function_id) END AS function_id
FROM placed
GROUP BY place
ORDER BY place
