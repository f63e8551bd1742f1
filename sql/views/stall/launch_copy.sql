-- Memory that one asynchronous copy or texture access of one launch uses, where no instrument observed it: by tensor maps,
-- and by pointers and handles among the launch's parameters, as in `pc_tensor_share`.
CREATE VIEW launch_copy (
  kernel_id,
  -- The function.
  function_id,
  -- The copy.
  pc,
  -- True for a storage, false for a driver allocation.
  is_storage,
  -- The storage or the allocation.
  object_id,
  -- Bytes of the object. Of a tensor map within it, the bytes of the map.
  object_bytes,
  -- The object's part of the copy.
  share
) AS
WITH object AS (
  SELECT true AS is_storage, storage_id AS object_id, max(size_bytes) AS bytes FROM storage GROUP BY storage_id
  UNION ALL
  SELECT false, allocation_id, max(size_bytes) FROM device_allocation GROUP BY allocation_id
), copied AS (
  -- Allocations are objects where no storage is known.
  SELECT
    kernel_id, function_id, pc, storage_id IS NOT NULL AS is_storage,
    coalesce(storage_id, allocation_id) AS object_id, sum(share) AS share
  FROM pc_tensor_share
  WHERE evidence = 'derived'
  GROUP BY kernel_id, function_id, pc, storage_id IS NOT NULL, coalesce(storage_id, allocation_id)
)
SELECT
  c.kernel_id, c.function_id, c.pc, c.is_storage, c.object_id,
  CAST(least(o.bytes, coalesce(e.extent_bytes, o.bytes)) AS BIGINT UNSIGNED), c.share
FROM copied c
JOIN object o ON o.is_storage = c.is_storage AND o.object_id = c.object_id
LEFT JOIN copy_extent e ON e.kernel_id = c.kernel_id AND e.function_id = c.function_id AND e.pc = c.pc
