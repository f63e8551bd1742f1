-- Two uses of one object that both write, without another use between them.
--
-- `dead_write` has those whose first write is overwritten whole. Uses are in the order of execution, including launches of
-- a CUDA graph.
CREATE VIEW consecutive_write (
  -- The object, as in `memory_object`.
  object_id,
  -- The storage. Null outside storages.
  storage_id,
  -- The launch that writes first. Null for copies and fills.
  kernel_id,
  -- Launches of the program before it.
  ordinal,
  -- Evidence for it, as in `object_use`.
  evidence,
  -- Its op.
  op_id,
  -- First address that a copy or fill writes.
  written_address,
  -- Bytes that it writes.
  size_bytes,
  -- The launch that writes next. Null for copies and fills.
  next_kernel_id,
  -- Launches of the program before the next write.
  next_ordinal,
  -- Evidence for the next write.
  next_evidence,
  -- The op of the next write.
  next_op_id,
  -- First address that the next copy or fill writes.
  next_address,
  -- Bytes that the next write writes.
  next_bytes
) AS
WITH written AS (
  -- Most objects have one known write.
  SELECT object_id FROM object_use WHERE direction = 'write' GROUP BY object_id HAVING count(*) > 1
), followed AS (
  SELECT
    object_id, storage_id, kernel_id, ordinal, direction, evidence, op_id, written_address, size_bytes,
    lead(kernel_id) OVER turn AS next_kernel_id,
    lead(ordinal) OVER turn AS next_ordinal,
    lead(direction) OVER turn AS next_direction,
    lead(evidence) OVER turn AS next_evidence,
    lead(op_id) OVER turn AS next_op_id,
    lead(written_address) OVER turn AS next_address,
    lead(size_bytes) OVER turn AS next_bytes
  FROM object_use u
  LEFT SEMI JOIN written w ON w.object_id = u.object_id
  WINDOW turn AS (PARTITION BY object_id ORDER BY ordinal, end_ordinal, called_ns)
)
SELECT
  object_id, storage_id, kernel_id, ordinal, evidence, op_id, written_address, size_bytes, next_kernel_id, next_ordinal,
  next_evidence, next_op_id, next_address, next_bytes
FROM followed
WHERE direction = 'write' AND next_direction = 'write'
