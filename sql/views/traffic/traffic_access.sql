-- Accesses of one instruction of one launch to one target: sectors of global memory, and the parts of them that each level of
-- memory serves.
--
-- Sectors are those of `pc_tensor`. Their levels are those of `launch_request_level`, of the model launch where a launch has its
-- accesses. Of a large launch that view knows the first requests only. An instruction that comes later is estimated: what
-- these requests touch of the object is touched again, and is in L2 if the object fits. Without any known request there are no rows.
CREATE VIEW traffic_access (
  kernel_id,
  -- The function.
  function_id,
  pc,
  -- Target of the lanes, as in `pc_tensor`.
  target,
  storage_id,
  tensor_id,
  allocation_id,
  -- True for stores and atomics.
  is_written,
  -- True for atomics.
  is_atomic,
  -- Sectors of 32 bytes.
  sectors,
  -- Lanes that access.
  lane_count,
  -- Distinct bytes.
  unique_bytes,
  -- Bytes of the storage or of the allocation.
  object_bytes,
  -- Lines of 128 bytes for each sector.
  lines_per_sector,
  -- The part of the sectors that L1 holds.
  l1_part,
  -- The part that the launch has not touched before.
  first_part,
  -- The part that the launch has touched before, and that neither L1 nor L2 holds.
  again_part,
  -- True if no request of the instruction is known in order.
  is_estimated
) AS
WITH object AS (
  SELECT true AS is_storage, storage_id AS object_id, CAST(max(size_bytes) AS DOUBLE) AS bytes FROM storage GROUP BY storage_id
  UNION ALL
  SELECT false, allocation_id, CAST(max(size_bytes) AS DOUBLE) FROM device_allocation GROUP BY allocation_id
), access AS (
  SELECT
    kernel_id, function_id, pc, target, storage_id, tensor_id, allocation_id,
    bool_or(kind IN ('write', 'atomic')) AS is_written, bool_or(kind = 'atomic') AS is_atomic, CAST(sum(sectors) AS DOUBLE) AS sectors,
    CAST(sum(lane_count) AS DOUBLE) AS lane_count, CAST(sum(unique_bytes) AS DOUBLE) AS unique_bytes
  FROM pc_tensor
  WHERE space IN ('global', 'global_async')
  GROUP BY kernel_id, function_id, pc, target, storage_id, tensor_id, allocation_id
), level AS (
  SELECT
    a.*, o.bytes AS object_bytes, r.sectors AS known_sectors, r.lines, r.l1_sectors,
    r.cold_sectors, r.sectors - r.l2_sectors + r.held_sectors - r.cold_sectors AS again_sectors,
    count(r.sectors) OVER (PARTITION BY a.kernel_id) AS known_rows,
    least(1.0, coalesce(sum(CASE WHEN r.sectors IS NULL THEN 0.0 ELSE a.unique_bytes END) OVER object_of_launch / nullif(o.bytes, 0.0), 1.0))
      AS touched_part
  FROM access a
  JOIN launch l ON l.kernel_id = a.kernel_id
  LEFT JOIN launch_request_level r
    ON r.kernel_id = coalesce(l.accesses_of, l.kernel_id) AND r.function_id = a.function_id AND r.pc = a.pc AND r.sectors > 0.0
  LEFT JOIN object o ON o.is_storage = (a.storage_id IS NOT NULL) AND o.object_id = coalesce(a.storage_id, a.allocation_id)
  WINDOW object_of_launch AS (PARTITION BY a.kernel_id, a.storage_id, coalesce(a.storage_id, a.allocation_id))
)
SELECT
  v.kernel_id, v.function_id, v.pc, v.target, v.storage_id, v.tensor_id, v.allocation_id, v.is_written, v.is_atomic, v.sectors, v.lane_count,
  v.unique_bytes, v.object_bytes, coalesce(v.lines / v.known_sectors, 0.25), coalesce(v.l1_sectors / v.known_sectors, 0.0),
  coalesce(v.cold_sectors / v.known_sectors, 1.0 - v.touched_part),
  CASE
    WHEN v.known_sectors IS NOT NULL THEN greatest(v.again_sectors / v.known_sectors, 0.0)
    WHEN c.l2_bytes >= v.object_bytes THEN 0.0 ELSE v.touched_part
  END,
  v.known_sectors IS NULL
FROM level v
LEFT JOIN launch_cache c ON c.kernel_id = v.kernel_id
WHERE v.known_rows > 0 AND v.sectors > 0.0
