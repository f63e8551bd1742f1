-- One end of a copy that reaches past the end of the memory in which it begins.
--
-- Memory that the program maps, in older captures all in pages of 2 MiB, goes on in the next mapping: its copies are not judged, nor are those in three dimensions.
CREATE VIEW wide_copy (
  run_id,
  -- Ordinal of the first launch after it.
  ordinal,
  -- Time of the call, nanoseconds since the Unix epoch.
  begin_ns,
  -- The end: source, destination.
  copy_end,
  -- Its first address.
  address,
  -- Bytes from there to the last one, with the gaps between rows.
  span_bytes,
  -- Bytes of the span outside of the memory.
  byte_count,
  -- The storage that holds the first address.
  storage_id,
  -- The driver's allocation that holds it, outside any storage.
  allocation_id,
  object,
  -- Its size.
  type,
  -- Bytes from the start of that memory to its end.
  byte_offset,
  -- The innermost user line around the call.
  line,
  -- The op around the call.
  op
) AS
WITH copy_span AS (
  SELECT run_id, ordinal, begin_ns, 'source' AS copy_end, source AS address, (row_count - 1) * source_pitch + row_bytes AS bytes, line, op
  FROM copy_context
  WHERE kind IN ('device_to_host', 'device_to_device')
  UNION ALL
  SELECT run_id, ordinal, begin_ns, 'destination', destination, (row_count - 1) * destination_pitch + row_bytes, line, op
  FROM copy_context
  WHERE kind IN ('host_to_device', 'device_to_device')
), memory AS (
  SELECT
    run_id, 'storage' AS target, storage_id AS object_id, TRY_CAST(address AS BIGINT) AS low,
    TRY_CAST(address + size_bytes AS BIGINT) AS high, alloc_ns, free_ns
  FROM storage
  -- Memory that was first seen as a tensor is larger than the tensor.
  WHERE origin <> 'tensor'
  UNION ALL
  SELECT
    run_id, 'outside any tensor', allocation_id, TRY_CAST(address AS BIGINT), TRY_CAST(address + size_bytes AS BIGINT), alloc_ns, free_ns
  FROM device_allocation
  WHERE NOT coalesce(is_mapped, (address + size_bytes) % 2097152 = 0)
), held AS (
  SELECT
    c.run_id, c.ordinal, c.begin_ns, c.copy_end, c.address, c.bytes, c.line, c.op,
    max(CASE WHEN m.target = 'storage' THEN m.object_id END) AS storage_id, max(m.object_id) AS object_id
  FROM copy_span c
  JOIN memory m ON m.run_id = c.run_id AND m.low <= c.address AND c.address < m.high AND m.alloc_ns <= c.begin_ns
    AND (m.free_ns IS NULL OR c.begin_ns < m.free_ns)
  GROUP BY c.run_id, c.ordinal, c.begin_ns, c.copy_end, c.address, c.bytes, c.line, c.op
)
SELECT
  h.run_id, h.ordinal, h.begin_ns, h.copy_end, h.address, h.bytes, h.address + h.bytes - m.high, h.storage_id,
  CASE WHEN h.storage_id IS NULL THEN h.object_id END, c.label, c.type, m.high - m.low, h.line, h.op
FROM held h
JOIN memory m ON m.target = CASE WHEN h.storage_id IS NULL THEN 'outside any tensor' ELSE 'storage' END
  AND m.object_id = coalesce(h.storage_id, h.object_id)
LEFT JOIN target_context c ON c.target = m.target AND c.object_id = m.object_id
WHERE h.address + h.bytes > m.high
