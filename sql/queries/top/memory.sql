-- Memory at the peak
-- Objects that are allocated at the peak of a GPU, grouped by category, module, op and line. requested: bytes that the
-- program asked for, where the source has all of them. by: the evidence for the category. All rows of a GPU add up to its peak.
WITH held AS (
  SELECT
    rank, device_id, category, category_source, module_path, op, line, count(*) AS objects,
    sum(CAST(size_bytes AS BIGINT)) AS size_bytes,
    CASE WHEN count(requested_bytes) = count(*) THEN sum(CAST(requested_bytes AS BIGINT)) END AS requested_bytes,
    first_value(object ORDER BY size_bytes DESC, object_id) AS object
  FROM peak_object
  GROUP BY rank, device_id, category, category_source, module_path, op, line
), summed AS (
  SELECT *, sum(size_bytes) OVER (PARTITION BY rank, device_id) AS all_bytes FROM held
), placed AS (
  SELECT *, least($top + 1, row_number() OVER (
    ORDER BY size_bytes DESC, rank, device_id, category, module_path, op, line, category_source
  )) AS place
  FROM summed
)
SELECT
  CASE WHEN min(device_id) = max(device_id) AND min(rank) IS NOT DISTINCT FROM max(rank)
    THEN sum(size_bytes) / nullif(CAST(max(all_bytes) AS DOUBLE), 0.0) END AS share,
  sum(size_bytes) AS size_bytes,
  CASE WHEN count(requested_bytes) = count(*) THEN sum(requested_bytes) END AS requested_bytes,
  sum(objects) AS objects,
  CASE WHEN min(rank) = max(rank) THEN max(rank) END AS rank,
  CASE WHEN min(device_id) = max(device_id) THEN max(device_id) END AS device_id,
  CASE WHEN place <= $top THEN max(category) ELSE 'other (' || CAST(count(*) AS VARCHAR) || ')' END AS category,
  CASE WHEN place <= $top THEN max(category_source) END AS "by",
  CASE WHEN place <= $top THEN max(object) END AS object,
  CASE WHEN place <= $top THEN max(module_path) END AS module,
  CASE WHEN place <= $top THEN max(op) END AS op,
  CASE WHEN place <= $top THEN max(line) END AS line
FROM placed
GROUP BY place
ORDER BY place
