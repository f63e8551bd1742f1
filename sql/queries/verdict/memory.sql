-- Memory
-- Allocations of a capture without launches: the highest peak of a GPU, the category with most of it, what is never freed,
-- and the largest allocation that failed.
WITH held AS (
  SELECT run_id, device_id, category, sum(CAST(size_bytes AS DOUBLE)) AS bytes
  FROM peak_object
  GROUP BY run_id, device_id, category
), most AS (
  SELECT
    category, bytes, sum(bytes) OVER (PARTITION BY run_id, device_id) AS all_bytes
  FROM held
), failure AS (
  SELECT f.requested_bytes, f.free_bytes, x.line
  FROM allocation_failure f
  LEFT JOIN op_context x ON x.op_id = f.op_id
  ORDER BY f.requested_bytes DESC NULLS LAST, f.time_ns
  LIMIT 1
)
SELECT
  count(*) AS allocations,
  CAST((SELECT max(live_bytes) FROM memory_peak) AS DOUBLE) AS peak_bytes,
  CAST(sum(CASE WHEN free_ns IS NULL THEN size_bytes ELSE 0 END) AS DOUBLE) AS left_bytes,
  f.category, f.share, f.failed_bytes, f.free_bytes, f.failed_at
FROM memory_object
CROSS JOIN (
  SELECT
    max(m.category) AS category, max(m.bytes / nullif(m.all_bytes, 0.0)) AS share,
    max(CAST(x.requested_bytes AS DOUBLE)) AS failed_bytes, max(CAST(x.free_bytes AS DOUBLE)) AS free_bytes,
    max(x.line) AS failed_at
  FROM (SELECT * FROM most ORDER BY all_bytes DESC, bytes DESC, category LIMIT 1) m
  FULL JOIN failure x ON true
) f
GROUP BY f.category, f.share, f.failed_bytes, f.free_bytes, f.failed_at
