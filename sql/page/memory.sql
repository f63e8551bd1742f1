-- Memory in use
-- Bytes that are allocated when a launch runs, over the launches of the program: the most in each stretch of launches,
-- and what is left at its end. Stretches in which nothing changes are no rows. tensors: storages of the framework;
-- allocations: what the driver gave, of which the framework keeps some for later.
WITH width AS (
  SELECT greatest(1, CAST(ceil(count(*) / CAST($top AS DOUBLE)) AS BIGINT)) AS launches, count(*) AS launch_count
  FROM launch
), object AS (
  SELECT 'tensors' AS memory, device_id, alloc_ordinal, free_ordinal, CAST(size_bytes AS BIGINT) AS bytes FROM storage
  UNION ALL
  SELECT 'allocations', device_id, alloc_ordinal, free_ordinal, CAST(size_bytes AS BIGINT) FROM device_allocation
), step AS (
  SELECT memory, device_id, ordinal, sum(bytes) AS bytes, sum(objects) AS objects
  FROM (
    SELECT memory, device_id, alloc_ordinal AS ordinal, bytes, 1 AS objects FROM object
    UNION ALL
    SELECT memory, device_id, free_ordinal, -bytes, -1 FROM object WHERE free_ordinal IS NOT NULL
  )
  GROUP BY memory, device_id, ordinal
), alive AS (
  SELECT
    memory, device_id, CAST(ordinal AS BIGINT) AS ordinal,
    sum(bytes) OVER (PARTITION BY memory, device_id ORDER BY ordinal) AS live_bytes,
    sum(objects) OVER (PARTITION BY memory, device_id ORDER BY ordinal) AS live_objects
  FROM step
)
SELECT
  a.memory,
  a.device_id,
  min(a.ordinal) AS first_ordinal,
  max(a.live_bytes) AS most_bytes,
  last_value(a.live_bytes ORDER BY a.ordinal) AS left_bytes,
  max(a.live_objects) AS most_objects,
  max(w.launch_count) AS launches
FROM alive a
CROSS JOIN width w
GROUP BY a.memory, a.device_id, a.ordinal / w.launches
ORDER BY a.memory DESC, a.device_id, first_ordinal
