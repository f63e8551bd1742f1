-- Memory that is in use when a launch begins, on one device: storages of the framework's allocator, or, in a program
-- without a framework, allocations of the driver.
--
-- Time is the ordinal of launches: what is allocated and freed between two launches is in none.
CREATE VIEW memory_in_use (
  -- CUDA's device ordinal.
  device_id,
  -- Ordinal of the launch.
  ordinal,
  -- The launch.
  kernel_id,
  -- Bytes of the objects that are allocated, as in `memory_object`.
  live_bytes,
  -- Those objects.
  object_count
) AS
WITH change AS (
  SELECT device_id, alloc_ordinal AS ordinal, CAST(size_bytes AS BIGINT) AS size_bytes, 1 AS objects FROM memory_object
  UNION ALL
  SELECT device_id, free_ordinal, -CAST(size_bytes AS BIGINT), -1 FROM memory_object
  WHERE free_ordinal IS NOT NULL
), moment AS (
  -- What happens before a launch, and each launch itself, which changes nothing.
  SELECT device_id, ordinal, size_bytes, objects, CAST(NULL AS BIGINT UNSIGNED) AS kernel_id FROM change
  UNION ALL
  SELECT d.device_id, l.ordinal, 0, 0, CAST(l.kernel_id AS BIGINT UNSIGNED)
  FROM launch l
  CROSS JOIN (SELECT DISTINCT device_id FROM memory_object) d
), summed AS (
  SELECT
    device_id, ordinal, max(kernel_id) AS kernel_id, sum(size_bytes) AS size_bytes, sum(objects) AS objects
  FROM moment
  GROUP BY device_id, ordinal
), running AS (
  SELECT
    device_id, ordinal, kernel_id,
    sum(size_bytes) OVER (PARTITION BY device_id ORDER BY ordinal) AS live_bytes,
    sum(objects) OVER (PARTITION BY device_id ORDER BY ordinal) AS object_count
  FROM summed
)
SELECT device_id, ordinal, kernel_id, live_bytes, object_count FROM running WHERE kernel_id IS NOT NULL
