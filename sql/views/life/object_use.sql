-- One use of one object, as in `memory_object`: by a launch, or by a memcpy or memset between launches.
--
-- For launches that were observed completely (`launch_observed`), from their accesses. For other launches, also from the
-- ranges of their tensor maps, the pointers of their bulk copies, the tensors of their op, and the accesses of an earlier
-- launch of their kind: they may have read less or more, so their direction is unknown. Memcpys and memsets belong to the object at their address at that time.
CREATE VIEW object_use (
  -- The object.
  object_id,
  -- The storage. Null for a driver allocation.
  storage_id,
  -- The launch. Null for memcpys and memsets.
  kernel_id,
  -- Ordinal of the launch. For a memcpy or memset, that of the first launch after it.
  ordinal,
  -- Ordinal of the first launch after the use: one more than `ordinal` for a launch.
  end_ordinal,
  -- Direction: read, write, both (it read and wrote), unknown (it may have done either).
  direction,
  -- Evidence for the use: accesses, model launch (as in `pc_tensor`), tensor maps, pointers (of bulk copies), op (the op's
  -- arguments and results), copy, fill.
  evidence,
  -- The one tensor that was written. Null if several were, or if unknown.
  written_tensor_id,
  -- Bytes of a memcpy or memset. For a launch, the bytes written, counted again in each warp request.
  size_bytes,
  -- First address that a memcpy or memset writes.
  written_address,
  -- The op that it was called in.
  op_id,
  -- Time of the call of a memcpy or memset, nanoseconds since the Unix epoch: it orders those with one ordinal.
  called_ns,
  -- For a launch by a CUDA graph, the ordinal of its capture: the object is allocated then, and may be free at
  -- `ordinal`.
  capture_ordinal
) AS
WITH known AS (
  SELECT kernel_id FROM launch_observed WHERE is_whole
), accessed AS (
  SELECT
    -- Memory in an allocation but in no storage is not an object if the program has storages.
    kernel_id, coalesce(storage_id, allocation_id) AS object_id, storage_id IS NULL AS is_allocation,
    CASE WHEN min(evidence) = 'observed' THEN bool_or(kind IN ('read', 'atomic', 'prefetch')) END AS is_read,
    CASE WHEN min(evidence) = 'observed' THEN bool_or(kind IN ('write', 'atomic')) END AS is_written,
    CASE WHEN min(evidence) = 'observed' THEN 'accesses' ELSE 'model launch' END AS evidence,
    min(CASE WHEN kind IN ('write', 'atomic') THEN tensor_id END) AS first_written,
    max(CASE WHEN kind IN ('write', 'atomic') THEN tensor_id END) AS last_written,
    sum(CASE WHEN kind IN ('write', 'atomic') THEN unique_bytes ELSE 0 END) AS written_bytes
  FROM pc_tensor
  WHERE storage_id IS NOT NULL OR allocation_id IS NOT NULL
  GROUP BY kernel_id, coalesce(storage_id, allocation_id), storage_id IS NULL
), mapped AS (
  SELECT DISTINCT kernel_id, coalesce(storage_id, allocation_id) AS object_id, storage_id IS NULL AS is_allocation
  FROM tensor_map_tensor
  WHERE storage_id IS NOT NULL OR allocation_id IS NOT NULL
), pointed AS (
  -- Bulk copies, by the pointers that their addresses are computed from.
  SELECT DISTINCT
    t.kernel_id, coalesce(t.storage_id, t.allocation_id) AS object_id, t.storage_id IS NULL AS is_allocation
  FROM pointer_use u
  JOIN launch l ON l.function_id = u.kernel_function_id
  JOIN pointer_tensor t ON t.kernel_id = l.kernel_id AND t.parameter_offset = u.parameter_offset
  WHERE t.storage_id IS NOT NULL OR t.allocation_id IS NOT NULL
), launched AS (
  SELECT
    kernel_id, object_id, is_allocation, CAST(NULL AS BOOLEAN) AS is_read, CAST(NULL AS BOOLEAN) AS is_written,
    'tensor maps' AS evidence,
    CAST(NULL AS BIGINT UNSIGNED) AS tensor_id, CAST(NULL AS BIGINT UNSIGNED) AS written_bytes
  FROM mapped
  UNION ALL
  SELECT
    kernel_id, object_id, is_allocation, CAST(NULL AS BOOLEAN), CAST(NULL AS BOOLEAN), 'pointers',
    CAST(NULL AS BIGINT UNSIGNED), CAST(NULL AS BIGINT UNSIGNED)
  FROM pointed
  UNION ALL
  SELECT
    kernel_id, object_id, is_allocation, is_read, is_written, evidence,
    CASE WHEN first_written = last_written THEN CAST(first_written AS BIGINT UNSIGNED) END,
    CAST(written_bytes AS BIGINT UNSIGNED)
  FROM accessed
  UNION ALL
  SELECT DISTINCT l.kernel_id, t.storage_id, false, CAST(NULL AS BOOLEAN), CAST(NULL AS BOOLEAN), 'op',
    CAST(NULL AS BIGINT UNSIGNED), CAST(NULL AS BIGINT UNSIGNED)
  FROM launch l
  LEFT ANTI JOIN known k ON k.kernel_id = l.kernel_id
  JOIN op_tensor d ON d.op_id = l.op_id
  JOIN tensor t ON t.tensor_id = d.tensor_id
), used AS (
  SELECT
    kernel_id, object_id, is_allocation,
    bool_or(is_read) AS is_read,
    bool_or(is_written) AS is_written,
    -- An object that is both mapped and accessed was read or written in more ways than observed.
    bool_or(is_read IS NULL) AS is_unknown,
    min(evidence) AS evidence,
    max(tensor_id) AS tensor_id,
    max(written_bytes) AS written_bytes
  FROM launched
  GROUP BY kernel_id, object_id, is_allocation
), moved AS (
  SELECT run_id, source AS address, 'read' AS direction, 'copy' AS evidence, size_bytes, ordinal, begin_ns, op_id FROM memcpy
  UNION ALL
  SELECT run_id, destination, 'write', 'copy', size_bytes, ordinal, begin_ns, op_id FROM memcpy
  UNION ALL
  SELECT run_id, address, 'write', 'fill', size_bytes, ordinal, begin_ns, op_id FROM memset
)
SELECT
  s.object_id, s.storage_id, u.kernel_id, l.ordinal, l.ordinal + 1,
  CASE WHEN u.is_unknown THEN 'unknown' WHEN u.is_read AND u.is_written THEN 'both' WHEN u.is_written THEN 'write'
    ELSE 'read' END,
  u.evidence, u.tensor_id, u.written_bytes, CAST(NULL AS BIGINT UNSIGNED) AS address,
  l.op_id, CAST(NULL AS BIGINT) AS called_ns, l.capture_ordinal
FROM used u
JOIN launch l ON l.kernel_id = u.kernel_id
JOIN memory_object s ON s.object_id = u.object_id AND (s.storage_id IS NULL) = u.is_allocation
UNION ALL
SELECT
  s.object_id, s.storage_id, CAST(NULL AS BIGINT UNSIGNED) AS kernel_id, m.ordinal, m.ordinal AS end_ordinal,
  m.direction, m.evidence, CAST(NULL AS BIGINT UNSIGNED) AS tensor_id, m.size_bytes,
  CASE WHEN m.direction = 'write' THEN m.address END, m.op_id, m.begin_ns, CAST(NULL AS BIGINT UNSIGNED) AS capture_ordinal
FROM moved m
JOIN memory_object s ON s.run_id = m.run_id AND m.address >= s.address AND m.address < s.address + s.size_bytes
  AND m.begin_ns >= s.alloc_ns AND (s.free_ns IS NULL OR m.begin_ns < s.free_ns)
