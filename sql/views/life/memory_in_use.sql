-- Allocated memory at the start of a launch, on one device: storages of the framework's allocator, or, in a program
-- without a framework, driver allocations.
--
-- Time is the ordinal of launches: memory allocated and freed between two launches does not appear. In a run without
-- launches, as of a memory snapshot, it is that of allocations and frees. Memory of a CUDA graph counts until the
-- framework frees it, although the graph continues to use it.
CREATE VIEW memory_in_use (
  device_id,
  -- Ordinal of the launch, or of an allocation or a free.
  ordinal,
  -- The launch. Null in a run without launches.
  kernel_id,
  -- Bytes of the allocated objects, as in `memory_object`.
  live_bytes,
  -- Allocated objects.
  object_count,
  -- The run: each has its own ordinals.
  run_id
) AS
WITH change AS (
  SELECT run_id, device_id, alloc_ordinal AS ordinal, CAST(size_bytes AS BIGINT) AS size_bytes, 1 AS objects
  FROM memory_object
  UNION ALL
  SELECT run_id, device_id, free_ordinal, -CAST(size_bytes AS BIGINT), -1 FROM memory_object
  WHERE free_ordinal IS NOT NULL
), moment AS (
  -- Events before a launch, and each launch itself, which changes nothing.
  SELECT run_id, device_id, ordinal, size_bytes, objects, CAST(NULL AS BIGINT UNSIGNED) AS kernel_id FROM change
  UNION ALL
  SELECT l.run_id, d.device_id, l.ordinal, 0, 0, CAST(l.kernel_id AS BIGINT UNSIGNED)
  FROM launch l
  JOIN (SELECT DISTINCT run_id, device_id FROM memory_object) d ON d.run_id = l.run_id
), summed AS (
  SELECT
    run_id, device_id, ordinal, max(kernel_id) AS kernel_id, sum(size_bytes) AS size_bytes, sum(objects) AS objects
  FROM moment
  GROUP BY run_id, device_id, ordinal
), running AS (
  SELECT
    run_id, device_id, ordinal, kernel_id,
    sum(size_bytes) OVER (PARTITION BY run_id, device_id ORDER BY ordinal) AS live_bytes,
    sum(objects) OVER (PARTITION BY run_id, device_id ORDER BY ordinal) AS object_count
  FROM summed
)
SELECT r.device_id, r.ordinal, r.kernel_id, r.live_bytes, r.object_count, r.run_id
FROM running r
LEFT JOIN (SELECT DISTINCT run_id FROM launch) l ON l.run_id = r.run_id
WHERE r.kernel_id IS NOT NULL OR l.run_id IS NULL
