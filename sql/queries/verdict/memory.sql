-- Memory
-- Allocations of a capture without launches: the highest peak of a GPU, and what is never freed.
SELECT
  count(*) AS allocations,
  CAST((SELECT max(live_bytes) FROM memory_peak) AS DOUBLE) AS peak_bytes,
  CAST(sum(CASE WHEN free_ns IS NULL THEN size_bytes ELSE 0 END) AS DOUBLE) AS left_bytes
FROM memory_object
