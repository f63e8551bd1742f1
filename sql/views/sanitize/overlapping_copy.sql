-- One copy whose source and destination overlap: its result is undefined.
--
-- Rows with gaps overlap where bytes of two rows do, and are judged if both ends have one pitch. Runs with copies of several
-- layers, whose gaps are not recorded, are not judged.
CREATE VIEW overlapping_copy (
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
), shifted AS (
  -- Row i of the source meets rows i - shift and i - shift - 1 of the destination.
  SELECT
    c.*, c.destination - c.source AS distance,
    CASE WHEN c.row_count > 1 THEN CAST(floor(CAST(c.source - c.destination AS DOUBLE) / c.source_pitch) AS BIGINT) ELSE 0 END AS shift
  FROM copy_context c
  LEFT JOIN spread x ON x.run_id = c.run_id
  WHERE c.source <> c.destination AND x.run_id IS NULL AND (c.row_count = 1 OR c.source_pitch = c.destination_pitch)
), counted AS (
  SELECT
    *,
    greatest(row_bytes - abs(distance + shift * source_pitch), 0) * greatest(row_count - abs(shift), 0)
      + CASE WHEN row_count > 1 THEN greatest(row_bytes - abs(distance + (shift + 1) * source_pitch), 0)
        * greatest(row_count - abs(shift + 1), 0) ELSE 0 END AS overlap_bytes
  FROM shifted
), overlap AS (
  SELECT * FROM counted WHERE overlap_bytes > 0
), held AS (
  SELECT
    o.run_id, o.ordinal, o.begin_ns, o.source, o.destination, max(s.storage_id) AS storage_id, max(a.allocation_id) AS allocation_id
  FROM overlap o
  LEFT JOIN storage s ON s.run_id = o.run_id AND TRY_CAST(s.address AS BIGINT) <= o.destination
    AND o.destination < TRY_CAST(s.address + s.size_bytes AS BIGINT) AND s.alloc_ns <= o.begin_ns AND (s.free_ns IS NULL OR o.begin_ns < s.free_ns)
  LEFT JOIN device_allocation a ON a.run_id = o.run_id AND TRY_CAST(a.address AS BIGINT) <= o.destination
    AND o.destination < TRY_CAST(a.address + a.size_bytes AS BIGINT) AND a.alloc_ns <= o.begin_ns AND (a.free_ns IS NULL OR o.begin_ns < a.free_ns)
  GROUP BY o.run_id, o.ordinal, o.begin_ns, o.source, o.destination
)
SELECT
  o.run_id, o.ordinal, o.begin_ns, o.source, o.destination, o.size_bytes, o.overlap_bytes, h.storage_id,
  CASE WHEN h.storage_id IS NULL THEN h.allocation_id END, c.label, c.type,
  o.destination - TRY_CAST(coalesce(s.address, a.address) AS BIGINT), o.line, o.op
FROM overlap o
JOIN held h ON h.run_id = o.run_id AND h.ordinal = o.ordinal AND h.begin_ns = o.begin_ns AND h.source = o.source
  AND h.destination = o.destination
LEFT JOIN storage s ON s.storage_id = h.storage_id
LEFT JOIN device_allocation a ON a.allocation_id = h.allocation_id
LEFT JOIN target_context c ON c.target = CASE WHEN h.storage_id IS NULL THEN 'outside any tensor' ELSE 'storage' END
  AND c.object_id = coalesce(h.storage_id, h.allocation_id)
