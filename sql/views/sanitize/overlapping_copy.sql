-- One copy whose source and destination overlap: its result is undefined.
--
-- Copies in several dimensions have gaps that are not recorded: runs with such copies are not judged.
CREATE VIEW overlapping_copy (
  -- The run.
  run_id,
  -- Ordinal of the first launch after it.
  ordinal,
  -- Time of the call, nanoseconds since the Unix epoch.
  begin_ns,
  -- Source address.
  source,
  -- Destination address.
  destination,
  -- Bytes that it copies.
  size_bytes,
  -- Bytes in both.
  overlap_bytes,
  -- The storage that holds the destination.
  storage_id,
  -- The driver's allocation that holds it, outside any storage.
  allocation_id,
  -- Its label.
  object,
  -- Its size.
  type,
  -- Bytes from the start of that memory to the destination.
  byte_offset,
  -- The innermost user line around the call.
  line,
  -- The op around the call.
  op
) AS
WITH spread AS (
  SELECT DISTINCT run_id FROM loss WHERE kind = 'memory' AND reason LIKE 'gaps of a%'
), overlap AS (
  SELECT
    m.*,
    least(m.source, m.destination) + m.size_bytes - greatest(m.source, m.destination) AS overlap_bytes
  FROM memcpy m
  LEFT JOIN spread x ON x.run_id = m.run_id
  WHERE m.source <> m.destination AND m.source < m.destination + m.size_bytes AND m.destination < m.source + m.size_bytes
    AND x.run_id IS NULL
), held AS (
  SELECT
    o.run_id, o.ordinal, o.begin_ns, o.source, o.destination, max(s.storage_id) AS storage_id, max(a.allocation_id) AS allocation_id
  FROM overlap o
  LEFT JOIN storage s ON s.run_id = o.run_id AND s.address <= o.destination AND o.destination < s.address + s.size_bytes
    AND s.alloc_ns <= o.begin_ns AND (s.free_ns IS NULL OR o.begin_ns < s.free_ns)
  LEFT JOIN device_allocation a ON a.run_id = o.run_id AND a.address <= o.destination
    AND o.destination < a.address + a.size_bytes AND a.alloc_ns <= o.begin_ns AND (a.free_ns IS NULL OR o.begin_ns < a.free_ns)
  GROUP BY o.run_id, o.ordinal, o.begin_ns, o.source, o.destination
)
SELECT
  o.run_id, o.ordinal, o.begin_ns, o.source, o.destination, o.size_bytes, o.overlap_bytes, h.storage_id,
  CASE WHEN h.storage_id IS NULL THEN h.allocation_id END, c.label, c.type,
  CAST(o.destination AS BIGINT) - CAST(coalesce(s.address, a.address) AS BIGINT), p.source_line, p.op
FROM overlap o
JOIN held h ON h.run_id = o.run_id AND h.ordinal = o.ordinal AND h.begin_ns = o.begin_ns AND h.source = o.source
  AND h.destination = o.destination
LEFT JOIN storage s ON s.storage_id = h.storage_id
LEFT JOIN device_allocation a ON a.allocation_id = h.allocation_id
LEFT JOIN op_context p ON p.op_id = o.op_id
LEFT JOIN target_context c ON c.target = CASE WHEN h.storage_id IS NULL THEN 'outside any tensor' ELSE 'storage' END
  AND c.object_id = coalesce(h.storage_id, h.allocation_id)
