-- One write of an object that was overwritten before anything read it.
--
-- Two consecutive uses of an object only write, and the second covers the bytes of the first. For memcpys and memsets,
-- addresses prove it. For launches, the written tensor and its size do. Launches whose accesses are not recorded may
-- have read. Writes before them are not reported.
CREATE VIEW dead_write (
  -- The object, as in `memory_object`.
  object_id,
  -- The storage. Null for a driver allocation.
  storage_id,
  -- The launch that wrote unused data. Null for a memcpy or memset.
  kernel_id,
  -- Its ordinal, or that of the first launch after the memcpy or memset.
  ordinal,
  -- Kind of write: accesses, copy, fill.
  evidence,
  -- The op that it ran for.
  op_id,
  -- Bytes written and never read. For a launch, up to the bytes of the tensor that it wrote.
  size_bytes,
  -- The launch that overwrote them. Null for a memcpy or memset.
  next_kernel_id,
  -- Its ordinal, or that of the first launch after the memcpy or memset.
  next_ordinal,
  -- The op that it ran for.
  next_op_id,
  -- True if the addresses of both prove it. If not, a launch may have written a part of its tensor several times.
  is_certain
) AS
WITH written AS (
  SELECT
    u.*,
    coalesce(u.written_address, t.address) AS address,
    CASE WHEN u.kernel_id IS NULL THEN u.size_bytes ELSE least(t.span_bytes, u.size_bytes) END AS bytes
  FROM object_use u
  LEFT JOIN tensor t ON t.tensor_id = u.written_tensor_id
), followed AS (
  SELECT
    object_id, storage_id, kernel_id, ordinal, direction, evidence, op_id, address, bytes,
    lead(kernel_id) OVER turn AS next_kernel_id,
    lead(ordinal) OVER turn AS next_ordinal,
    lead(direction) OVER turn AS next_direction,
    lead(evidence) OVER turn AS next_evidence,
    lead(op_id) OVER turn AS next_op_id,
    lead(address) OVER turn AS next_address,
    lead(bytes) OVER turn AS next_bytes
  FROM written
  -- In the order of execution, including launches of a CUDA graph.
  WINDOW turn AS (PARTITION BY object_id ORDER BY ordinal, end_ordinal, called_ns)
)
SELECT
  object_id, storage_id, kernel_id, ordinal, evidence, op_id, bytes, next_kernel_id, next_ordinal, next_op_id,
  evidence <> 'accesses' AND next_evidence <> 'accesses'
FROM followed
WHERE direction = 'write' AND next_direction = 'write'
  AND next_address <= address AND next_address + next_bytes >= address + bytes
