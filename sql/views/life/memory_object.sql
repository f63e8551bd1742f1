-- One object with a recorded lifetime: a storage of the framework, or, in a program without a framework, a driver
-- allocation.
CREATE VIEW memory_object (
  -- Its storage_id or its allocation_id. A process has one kind of object, so ids are unique.
  object_id,
  -- The storage. Null for an allocation.
  storage_id,
  -- The driver allocation. Null for a storage.
  allocation_id,
  run_id,
  -- CUDA's device ordinal. -1 if unknown.
  device_id,
  -- First address.
  address,
  -- Bytes.
  size_bytes,
  -- Time of its allocation, nanoseconds since the Unix epoch.
  alloc_ns,
  -- Time of its free. Null if it was never freed.
  free_ns,
  -- Ordinal of the first launch that can use it.
  alloc_ordinal,
  -- Ordinal of the first launch after its free. Null if it was never freed.
  free_ordinal,
  -- allocator (its allocation was recorded), tensor (it is older than the recording, or external), driver (an
  -- allocation).
  origin,
  -- The op that was running at its allocation.
  op_id
) AS
SELECT
  storage_id AS object_id, storage_id, CAST(NULL AS BIGINT UNSIGNED) AS allocation_id, run_id, device_id, address,
  size_bytes, alloc_ns, free_ns, alloc_ordinal, free_ordinal, CAST(origin AS VARCHAR), op_id
FROM storage
UNION ALL
SELECT
  a.allocation_id AS object_id, CAST(NULL AS BIGINT UNSIGNED) AS storage_id, a.allocation_id, a.run_id, a.device_id,
  a.address, a.size_bytes, a.alloc_ns, a.free_ns, a.alloc_ordinal, a.free_ordinal, 'driver',
  CAST(NULL AS BIGINT UNSIGNED) AS op_id
FROM device_allocation a
JOIN run r ON r.run_id = a.run_id AND r.reference_run_id = r.run_id
LEFT ANTI JOIN (SELECT DISTINCT run_id FROM storage) s ON s.run_id = a.run_id
