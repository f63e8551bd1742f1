-- Lives of the largest objects
-- From the first launch that can use it to the first that cannot any more; no free: it was never freed. The others are
-- one row. Where the program has a framework that manages memory, these are its storages, else what the driver gave.
WITH named AS (
  SELECT storage_id, min(name) AS name FROM tensor WHERE name IS NOT NULL GROUP BY storage_id
), object AS (
  SELECT
    coalesce(n.name, 'result of ' || o.name, 'storage ' || CAST(s.storage_id % 1099511627776 AS VARCHAR)) AS object,
    s.device_id, s.size_bytes, s.alloc_ordinal, s.free_ordinal
  FROM storage s
  LEFT JOIN named n ON n.storage_id = s.storage_id
  LEFT JOIN op o ON o.op_id = s.op_id
  UNION ALL
  SELECT
    'allocation ' || CAST(allocation_id % 1099511627776 AS VARCHAR), device_id, size_bytes, alloc_ordinal, free_ordinal
  FROM device_allocation
  WHERE (SELECT count(*) FROM storage) = 0
), placed AS (
  SELECT *, least($top + 1, row_number() OVER (ORDER BY size_bytes DESC, alloc_ordinal, object, device_id)) AS place
  FROM object
)
SELECT
  CASE WHEN place <= $top THEN max(object) ELSE '(' || CAST(count(*) AS VARCHAR) || ' others)' END AS object,
  sum(size_bytes) AS size_bytes,
  CASE WHEN place <= $top THEN max(device_id) END AS device_id,
  min(alloc_ordinal) AS alloc_ordinal,
  CASE WHEN place <= $top THEN max(free_ordinal) END AS free_ordinal,
  (SELECT count(*) FROM launch) AS launches
FROM placed
GROUP BY place
ORDER BY place
