-- One object that a launch touches: the part that it finds in L2, and the bytes that L2 writes back meanwhile.
--
-- Launches touch their memory one after the other, in the order of the program: tensors where these are known, else the
-- storage or the allocation. Copies by tensor maps and pointers are taken to touch the whole object if it fits into L2.
-- `l2_walk` has the rule. Memory is found by its addresses, also after it was freed and allocated again. Where launches touch
-- parts of an object, these are taken to be independent of each other. Sets and other traffic change this.
CREATE VIEW object_residency (
  kernel_id,
  -- True for a storage, false for a driver allocation.
  is_storage,
  -- The storage or the allocation.
  object_id,
  -- The part of the bytes that the launch touches. 0 where it copies an unknown part of an object that does not fit.
  l2_share,
  -- Bytes of what the launch stores there. Null where it copies an unknown part.
  written_back_bytes,
  -- Bytes of what launches before stored, written back for the lines of this one.
  displaced_bytes
) AS
WITH part AS (
  SELECT
    kernel_id, storage_id, tensor_id, allocation_id,
    sum(CASE WHEN kind = 'write' THEN 0.0 ELSE CAST(unique_bytes AS DOUBLE) END) AS read_bytes,
    sum(CASE WHEN kind IN ('write', 'atomic') THEN CAST(unique_bytes AS DOUBLE) ELSE 0.0 END) AS written_bytes
  FROM pc_tensor
  WHERE space IN ('global', 'global_async')
  GROUP BY kernel_id, storage_id, tensor_id, allocation_id
  UNION ALL
  SELECT
    c.kernel_id, CASE WHEN c.is_storage THEN c.object_id END, NULL, CASE WHEN NOT c.is_storage THEN c.object_id END,
    max(CASE WHEN i.memory_kind IN ('copy in', 'read') AND c.object_bytes < g.l2_bytes THEN CAST(c.object_bytes AS DOUBLE) ELSE 0.0 END),
    max(CASE WHEN i.memory_kind IN ('copy in', 'read') OR c.object_bytes >= g.l2_bytes THEN 0.0 ELSE CAST(c.object_bytes AS DOUBLE) END)
  FROM launch_copy c
  JOIN launch_cache g ON g.kernel_id = c.kernel_id
  JOIN instruction i ON i.function_id = c.function_id AND i.pc = c.pc
  WHERE c.share > 0.0
  GROUP BY c.kernel_id, c.is_storage, c.object_id
), place AS (
  SELECT
    l.run_id, l.device_id, p.kernel_id, p.storage_id, p.allocation_id, g.l2_bytes,
    coalesce(t.address, s.address, a.address) AS address, coalesce(t.span_bytes, s.size_bytes, a.size_bytes) AS span_bytes,
    p.read_bytes, p.written_bytes
  FROM part p
  JOIN launch l ON l.kernel_id = p.kernel_id
  JOIN launch_cache g ON g.kernel_id = p.kernel_id
  LEFT JOIN tensor t ON t.tensor_id = p.tensor_id
  LEFT JOIN storage s ON s.storage_id = p.storage_id
  LEFT JOIN device_allocation a ON a.allocation_id = p.allocation_id
), walked AS (
  SELECT
    kernel_id, storage_id, allocation_id, least(greatest(read_bytes, written_bytes), span_bytes) AS bytes,
    l2_walk(
      kernel_id, address, span_bytes, least(read_bytes, span_bytes), least(written_bytes, span_bytes), CAST(l2_bytes AS DOUBLE)
    ) OVER (PARTITION BY run_id, device_id ORDER BY kernel_id, address) AS traffic
  FROM place
  WHERE address IS NOT NULL AND read_bytes + written_bytes > 0.0
), touched AS (
  SELECT kernel_id, storage_id, allocation_id, bytes, traffic[1] * bytes AS held_bytes, traffic[2] AS written_back_bytes, traffic[3] AS displaced_bytes
  FROM walked
  UNION ALL
  SELECT kernel_id, storage_id, allocation_id, 0.0, 0.0, NULL, NULL FROM place WHERE address IS NOT NULL AND read_bytes + written_bytes = 0.0
)
SELECT
  kernel_id, storage_id IS NOT NULL, coalesce(storage_id, allocation_id), coalesce(sum(held_bytes) / nullif(sum(bytes), 0.0), 0.0),
  sum(written_back_bytes), sum(displaced_bytes)
FROM touched
GROUP BY kernel_id, storage_id IS NOT NULL, coalesce(storage_id, allocation_id)
