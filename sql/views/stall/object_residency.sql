-- The part of one object that a launch finds in L2, as launches before left it there.
--
-- The launch before that touched the object left what it touched, if the memory that launches touched since fits into L2.
-- From recorded accesses, and from copies by tensor maps and pointers, which are taken to touch the whole object if it
-- fits into L2. Sets and other traffic change this.
CREATE VIEW object_residency (
  kernel_id,
  -- True for a storage, false for a driver allocation.
  is_storage,
  -- The storage or the allocation.
  object_id,
  -- The part of its bytes.
  l2_share
) AS
WITH gpu AS (
  SELECT kernel_id, l2_bytes / 32.0 AS l2_sectors FROM launch_cache
), object AS (
  SELECT true AS is_storage, storage_id AS object_id, max(size_bytes) / 32.0 AS sectors FROM storage GROUP BY storage_id
  UNION ALL
  SELECT false, allocation_id, max(size_bytes) / 32.0 FROM device_allocation GROUP BY allocation_id
), part AS (
  -- Allocations are objects where no storage is known.
  SELECT
    kernel_id, storage_id IS NOT NULL AS is_storage,
    coalesce(storage_id, allocation_id) AS object_id, sum(unique_bytes) / 32.0 AS sectors
  FROM pc_tensor
  GROUP BY kernel_id, storage_id IS NOT NULL, coalesce(storage_id, allocation_id)
  UNION ALL
  -- A launch copies an unknown part of a larger object.
  SELECT DISTINCT
    c.kernel_id, c.is_storage, c.object_id, CASE WHEN c.object_bytes / 32.0 < g.l2_sectors THEN c.object_bytes / 32.0 END
  FROM launch_copy c
  JOIN gpu g ON g.kernel_id = c.kernel_id
), bounded AS (
  -- The sectors of each object that a launch touches, no more than the object has.
  SELECT
    p.kernel_id, p.is_storage, p.object_id, least(coalesce(sum(p.sectors), 0.0), max(o.sectors)) AS sectors,
    max(o.sectors) AS object_sectors
  FROM part p
  JOIN object o ON o.is_storage = p.is_storage AND o.object_id = p.object_id
  GROUP BY p.kernel_id, p.is_storage, p.object_id
), traffic AS (
  SELECT kernel_id, sum(sum(sectors)) OVER (ORDER BY kernel_id) AS until, sum(sectors) AS sectors
  FROM bounded
  GROUP BY kernel_id
), ordered AS (
  -- The row before. A window over each of many objects takes longer.
  SELECT
    b.kernel_id, b.is_storage, b.object_id, b.object_sectors, t.until - t.sectors AS begin,
    lag(b.is_storage) OVER (ORDER BY b.is_storage, b.object_id, b.kernel_id) AS before_is_storage,
    lag(b.object_id) OVER (ORDER BY b.is_storage, b.object_id, b.kernel_id) AS before_object_id,
    lag(b.sectors) OVER (ORDER BY b.is_storage, b.object_id, b.kernel_id) AS held,
    lag(t.until - t.sectors) OVER (ORDER BY b.is_storage, b.object_id, b.kernel_id) AS touched
  FROM bounded b
  JOIN traffic t ON t.kernel_id = b.kernel_id
), before AS (
  -- The launch before that touched the object, and the sectors touched since it began.
  SELECT
    kernel_id, is_storage, object_id, object_sectors, begin,
    CASE WHEN before_is_storage = is_storage AND before_object_id = object_id THEN held END AS held,
    CASE WHEN before_is_storage = is_storage AND before_object_id = object_id THEN touched END AS touched
  FROM ordered
)
SELECT
  b.kernel_id, b.is_storage, b.object_id,
  CASE WHEN b.begin - b.touched < g.l2_sectors THEN least(b.held / nullif(b.object_sectors, 0.0), 1.0) ELSE 0.0 END
FROM before b
JOIN gpu g ON g.kernel_id = b.kernel_id
