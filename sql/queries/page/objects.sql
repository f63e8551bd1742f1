-- Lifetimes of objects
-- From the first launch that can use an object to its free, with its first and last use. Objects allocated at the peak
-- come first, the largest before others. The rest is one row. patterns: the object's patterns, as in `life_pattern`.
-- Objects are storages if the program has a framework that manages memory, else driver allocations.
WITH pattern AS (
  SELECT coalesce(storage_id, allocation_id) AS object_id, string_agg(DISTINCT pattern, ', ' ORDER BY pattern) AS patterns
  FROM life_pattern
  GROUP BY coalesce(storage_id, allocation_id)
), object AS (
  SELECT
    l.object_id, l.object, l.type, l.born_at, l.device_id, l.size_bytes, l.alloc_ordinal, l.first_use_ordinal,
    l.last_use_ordinal, l.free_ordinal, l.use_count, l.is_live_at_peak, p.patterns
  FROM object_life l
  LEFT JOIN pattern p ON p.object_id = l.object_id
), placed AS (
  SELECT
    *, least($top + 1, row_number() OVER (
      ORDER BY is_live_at_peak DESC, size_bytes DESC, alloc_ordinal, object, device_id, free_ordinal, first_use_ordinal,
        object_id
    )) AS place
  FROM object
)
SELECT
  CASE WHEN place <= $top THEN max(object) ELSE 'other (' || CAST(count(*) AS VARCHAR) || ')' END AS object,
  CASE WHEN place <= $top THEN max(type) END AS type,
  CASE WHEN place <= $top THEN max(born_at) END AS born_at,
  sum(size_bytes) AS size_bytes,
  CASE WHEN place <= $top THEN max(device_id) END AS device_id,
  CASE WHEN place <= $top THEN max(alloc_ordinal) END AS alloc_ordinal,
  CASE WHEN place <= $top THEN max(first_use_ordinal) END AS first_use_ordinal,
  CASE WHEN place <= $top THEN max(last_use_ordinal) END AS last_use_ordinal,
  CASE WHEN place <= $top THEN max(free_ordinal) END AS free_ordinal,
  sum(use_count) AS uses,
  CASE WHEN place <= $top THEN bool_or(is_live_at_peak) END AS is_live_at_peak,
  CASE WHEN place <= $top THEN max(patterns) END AS patterns,
  CASE WHEN (SELECT count(*) FROM launch) > 0 THEN (SELECT count(*) FROM launch)
    ELSE (SELECT coalesce(max(ordinal), 0) + 1 FROM memory_in_use) END AS launches
FROM placed
GROUP BY place
ORDER BY place
