-- Memory at the peak by category
-- Objects that are allocated when the memory in use of a GPU first reaches its maximum, by category. held by: the module,
-- else the line, with most of it. requested: bytes that the program asked for, where the source has all. All rows of a
-- GPU add up to its peak.
WITH held AS (
  SELECT
    rank, device_id, category, coalesce(module_path, line, op) AS held_by, count(*) AS objects,
    sum(CAST(size_bytes AS BIGINT)) AS size_bytes,
    CASE WHEN count(requested_bytes) = count(*) THEN sum(CAST(requested_bytes AS BIGINT)) END AS requested_bytes
  FROM peak_object
  GROUP BY rank, device_id, category, coalesce(module_path, line, op)
), summed AS (
  SELECT
    rank, device_id, category, sum(objects) AS objects, sum(size_bytes) AS size_bytes,
    CASE WHEN count(requested_bytes) = count(*) THEN sum(requested_bytes) END AS requested_bytes,
    first_value(held_by ORDER BY size_bytes DESC, held_by) AS held_by,
    max(size_bytes) AS held_bytes
  FROM held
  GROUP BY rank, device_id, category
)
SELECT
  size_bytes / nullif(CAST(sum(size_bytes) OVER (PARTITION BY rank, device_id) AS DOUBLE), 0.0) AS share,
  size_bytes, requested_bytes, objects, rank, device_id, category, held_by,
  CASE WHEN held_by IS NOT NULL THEN held_bytes END AS held_bytes
FROM summed
ORDER BY rank NULLS FIRST, device_id, size_bytes DESC, category
