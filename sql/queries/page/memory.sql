-- Memory in use
-- Allocated bytes over the launches of the program: the maximum of each stretch of launches, and the value at its end. tensors: storages of the framework.
-- allocations: of the driver, with the framework's reserve. moment: without launches, time counts allocations and frees.
-- Among several processes with a GPU of one number: that with the highest peak.
WITH shown AS (
  SELECT device_id, first_value(run_id ORDER BY live_bytes DESC, run_id) AS run_id FROM memory_peak GROUP BY device_id
), counted AS (
  -- Without launches, time is that of allocations and frees.
  SELECT
    CASE WHEN count(*) > 0 THEN 'launch' ELSE 'event' END AS moment,
    CASE WHEN count(*) > 0 THEN count(*) ELSE (SELECT coalesce(max(ordinal), 0) + 1 FROM memory_in_use) END AS moments
  FROM launch
  WHERE run_id IN (SELECT run_id FROM shown)
), width AS (
  SELECT
    greatest(1, CAST(ceil(moments / CAST($top AS DOUBLE)) AS BIGINT)) AS launches, CAST(moments AS BIGINT) AS launch_count,
    moment
  FROM counted
), step AS (
  SELECT c.device_id, c.ordinal, sum(c.bytes) AS bytes, sum(c.objects) AS objects
  FROM (
    SELECT run_id, device_id, alloc_ordinal AS ordinal, CAST(size_bytes AS BIGINT) AS bytes, 1 AS objects FROM device_allocation
    UNION ALL
    SELECT run_id, device_id, free_ordinal, -CAST(size_bytes AS BIGINT), -1 FROM device_allocation WHERE free_ordinal IS NOT NULL
  ) c
  WHERE c.run_id IN (SELECT run_id FROM shown)
  GROUP BY c.device_id, c.ordinal
), alive AS (
  SELECT 'tensors' AS memory, u.device_id, CAST(u.ordinal AS BIGINT) AS ordinal, u.live_bytes, u.most_bytes, u.object_count
  FROM memory_in_use u
  JOIN shown s ON s.run_id = u.run_id AND s.device_id = u.device_id
  WHERE (SELECT count(*) FROM storage) > 0
  UNION ALL
  SELECT
    'allocations', device_id, CAST(ordinal AS BIGINT),
    sum(bytes) OVER (PARTITION BY device_id ORDER BY ordinal), sum(bytes) OVER (PARTITION BY device_id ORDER BY ordinal),
    sum(objects) OVER (PARTITION BY device_id ORDER BY ordinal)
  FROM step
)
SELECT
  a.memory,
  a.device_id,
  min(a.ordinal) AS first_ordinal,
  max(a.most_bytes) AS most_bytes,
  last_value(a.live_bytes ORDER BY a.ordinal) AS left_bytes,
  max(a.object_count) AS most_objects,
  max(w.launch_count) AS launches,
  max(w.moment) AS moment
FROM alive a
CROSS JOIN width w
GROUP BY a.memory, a.device_id, a.ordinal / w.launches
ORDER BY a.memory DESC, a.device_id, first_ordinal
