-- What was live when most memory was in use?
-- Time is the ordinal of the launch; of several launches with as much in use, the first.
-- Capture: transformer_step
WITH event AS (
  SELECT device_id, alloc_ordinal AS ordinal, CAST(size_bytes AS BIGINT) AS change FROM storage
  UNION ALL
  SELECT device_id, free_ordinal, -CAST(size_bytes AS BIGINT) FROM storage WHERE free_ordinal IS NOT NULL
), live AS (
  SELECT device_id, ordinal, sum(sum(change)) OVER (PARTITION BY device_id ORDER BY ordinal) AS bytes
  FROM event
  GROUP BY device_id, ordinal
), peak AS (
  SELECT device_id, ordinal, bytes FROM live ORDER BY bytes DESC, ordinal LIMIT 1
), named AS (
  SELECT
    storage_id, first_value(coalesce(name, 'result of ' || op) ORDER BY name NULLS LAST, span_bytes DESC, tensor_id) AS object,
    first_value(role ORDER BY role NULLS LAST) AS role
  FROM tensor_context
  GROUP BY storage_id
)
SELECT
  p.ordinal AS peak_ordinal, p.bytes AS peak_bytes, n.object, n.role, count(*) AS storages,
  sum(s.size_bytes) AS size_bytes
FROM peak p
JOIN storage s ON s.device_id = p.device_id AND s.alloc_ordinal <= p.ordinal
  AND (s.free_ordinal IS NULL OR s.free_ordinal > p.ordinal)
LEFT JOIN named n ON n.storage_id = s.storage_id
GROUP BY p.ordinal, p.bytes, n.object, n.role
ORDER BY size_bytes DESC, n.object
LIMIT 10
