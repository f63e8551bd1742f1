-- Which memory is held longer than needed?
-- One storage can have several patterns. byte_launches (bytes times launches of the pattern) ranks them, worst is its
-- costliest case.
-- Capture: transformer_step
SELECT
  pattern, count(DISTINCT storage_id) AS storages, sum(size_bytes) AS bytes, sum(byte_launches) AS byte_launches,
  first_value(object || coalesce(' at ' || born_at, '') ORDER BY byte_launches DESC, storage_id) AS worst
FROM life_pattern
GROUP BY pattern
ORDER BY byte_launches DESC, pattern
