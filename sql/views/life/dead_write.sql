-- One write of an object that was overwritten before anything read it.
--
-- Two consecutive uses of an object only write, and the second covers the bytes of the first. For memcpys and memsets,
-- addresses prove it. For launches, the range of the second write includes that of the first, and its bytes fill it.
-- Launches that were not observed completely may have read. Writes before them are not reported.
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
  -- Bytes written and never read. For a launch, up to the bytes of the range that it wrote.
  size_bytes,
  -- The launch that overwrote them. Null for a memcpy or memset.
  next_kernel_id,
  -- Its ordinal, or that of the first launch after the memcpy or memset.
  next_ordinal,
  -- The op that it ran for.
  next_op_id,
  -- True if the addresses of both prove it. If not, a launch may have written a part of its range several times.
  is_certain
) AS
WITH writer AS (
  SELECT object_id, kernel_id FROM consecutive_write WHERE kernel_id IS NOT NULL
  UNION
  SELECT object_id, next_kernel_id FROM consecutive_write WHERE next_kernel_id IS NOT NULL
), stored AS (
  SELECT kernel_id, address, address + span_bytes AS end_address FROM access_summary WHERE kind = 'write'
  UNION ALL
  SELECT kernel_id, address, address + span_bytes FROM memory_access WHERE kind = 'write'
), range AS (
  SELECT
    w.object_id, w.kernel_id, min(greatest(r.address, s.address)) AS address,
    max(least(r.end_address, s.address + s.size_bytes)) AS end_address
  FROM writer w
  JOIN memory_object s ON s.object_id = w.object_id
  JOIN stored r ON r.kernel_id = w.kernel_id AND r.address < s.address + s.size_bytes AND r.end_address > s.address
  GROUP BY w.object_id, w.kernel_id
), placed AS (
  SELECT
    p.object_id, p.storage_id, p.kernel_id, p.ordinal, p.evidence, p.op_id, p.next_kernel_id, p.next_ordinal,
    p.next_evidence, p.next_op_id, p.size_bytes, p.next_bytes,
    coalesce(a.address, p.written_address) AS address,
    coalesce(a.end_address, p.written_address + p.size_bytes) AS end_address,
    coalesce(b.address, p.next_address) AS next_address,
    coalesce(b.end_address, p.next_address + p.next_bytes) AS next_end_address
  FROM consecutive_write p
  JOIN memory_object s ON s.object_id = p.object_id
  JOIN unobserved_before c ON c.run_id = s.run_id AND c.ordinal = p.ordinal
  JOIN unobserved_before d ON d.run_id = s.run_id
    AND d.ordinal = CASE WHEN p.next_kernel_id IS NULL THEN p.next_ordinal ELSE p.next_ordinal + 1 END
    AND d.is_listed AND d.blind_count = c.blind_count
  LEFT JOIN range a ON a.object_id = p.object_id AND a.kernel_id = p.kernel_id
  LEFT JOIN range b ON b.object_id = p.object_id AND b.kernel_id = p.next_kernel_id
)
SELECT
  object_id, storage_id, kernel_id, ordinal, evidence, op_id, least(size_bytes, end_address - address), next_kernel_id,
  next_ordinal, next_op_id, evidence <> 'accesses' AND next_evidence <> 'accesses'
FROM placed
WHERE next_address <= address AND next_end_address >= end_address AND next_bytes >= next_end_address - next_address
