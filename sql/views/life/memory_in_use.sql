-- Allocated memory at the start of a launch, on one device: storages of the framework's allocator, or, in a program
-- without a framework, driver allocations.
--
-- Time is the ordinal of launches, and what is allocated and freed between two of them appears in the columns of the most.
-- In a run without launches, as of a memory snapshot, time is that of allocations and frees. Memory of a CUDA graph counts until the
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
  -- The most bytes that were allocated since the launch before.
  most_bytes,
  -- Objects at that moment.
  most_objects,
  -- That moment, nanoseconds since the Unix epoch. Null if it is the launch itself.
  most_ns,
  -- The run: each has its own ordinals.
  run_id
) AS
WITH change AS (
  SELECT run_id, device_id, alloc_ordinal AS ordinal, alloc_ns AS ns, CAST(size_bytes AS BIGINT) AS size_bytes, 1 AS objects
  FROM memory_object
  UNION ALL
  SELECT run_id, device_id, free_ordinal, free_ns, -CAST(size_bytes AS BIGINT), -1 FROM memory_object
  WHERE free_ordinal IS NOT NULL
), moment AS (
  -- Events before a launch, and each launch itself, which changes nothing.
  SELECT run_id, device_id, ordinal, ns, size_bytes, objects, CAST(NULL AS BIGINT UNSIGNED) AS kernel_id FROM change
  UNION ALL
  SELECT l.run_id, d.device_id, l.ordinal, CAST(NULL AS BIGINT), 0, 0, CAST(l.kernel_id AS BIGINT UNSIGNED)
  FROM launch l
  JOIN (SELECT DISTINCT run_id, device_id FROM memory_object) d ON d.run_id = l.run_id
), running AS (
  SELECT
    run_id, device_id, ordinal, ns, kernel_id, row_number() OVER so_far AS place,
    sum(size_bytes) OVER so_far AS live_bytes, sum(objects) OVER so_far AS object_count
  FROM moment
  WINDOW so_far AS (
    PARTITION BY run_id, device_id ORDER BY ordinal, ns NULLS LAST, size_bytes ROWS UNBOUNDED PRECEDING
  )
), grouped AS (
  SELECT
    run_id, device_id, ordinal, max(kernel_id) AS kernel_id,
    first_value(live_bytes ORDER BY place DESC) AS live_bytes,
    first_value(object_count ORDER BY place DESC) AS object_count,
    max(live_bytes) AS most_bytes,
    first_value(object_count ORDER BY live_bytes DESC, place DESC) AS most_objects,
    first_value(ns ORDER BY live_bytes DESC, place DESC) AS most_ns
  FROM running
  GROUP BY run_id, device_id, ordinal
)
SELECT
  r.device_id, r.ordinal, r.kernel_id, r.live_bytes, r.object_count, r.most_bytes, r.most_objects, r.most_ns, r.run_id
FROM grouped r
LEFT JOIN (SELECT DISTINCT run_id FROM launch) l ON l.run_id = r.run_id
WHERE r.kernel_id IS NOT NULL OR l.run_id IS NULL
