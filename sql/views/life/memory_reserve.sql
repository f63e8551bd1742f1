-- Memory that the framework's allocator holds of one device at the peak of its use, and its fragmentation.
--
-- A reserved part is an allocation of the driver in which the framework ever had an object. Unused memory lies before,
-- between and behind the objects of a part. The allocator cannot give more at once than the largest piece of it.
CREATE VIEW memory_reserve (
  run_id,
  device_id,
  -- Bytes of objects at the peak, as in `memory_peak`.
  live_bytes,
  -- Bytes that the program asked for, where they are known.
  requested_bytes,
  -- Objects at the peak whose request is known.
  requested_count,
  -- Bytes of reserved parts. Null if the source has none.
  reserved_bytes,
  -- Reserved parts.
  reserved_count,
  -- Bytes of these without an object.
  unused_bytes,
  -- Pieces of unused memory.
  unused_count,
  -- Bytes of the largest piece.
  largest_unused_bytes,
  -- Part of the unused memory that is outside of the largest piece.
  fragmentation
) AS
WITH peak AS (
  SELECT run_id, device_id, ordinal, peak_ns, live_bytes FROM memory_peak
), part AS (
  SELECT a.run_id, a.device_id, a.allocation_id, a.address, a.address + a.size_bytes AS end_address, a.size_bytes
  FROM device_allocation a
  JOIN peak p ON p.run_id = a.run_id AND p.device_id = a.device_id
  WHERE (a.alloc_ordinal < p.ordinal OR a.alloc_ordinal = p.ordinal AND (p.peak_ns IS NULL OR a.alloc_ns <= p.peak_ns))
    AND (a.free_ordinal IS NULL OR a.free_ordinal > p.ordinal OR a.free_ordinal = p.ordinal AND a.free_ns > p.peak_ns)
), object AS (
  SELECT
    s.run_id, s.device_id, s.storage_id, s.address, s.size_bytes, q.requested_bytes,
    l.is_live_at_peak AS is_live
  FROM storage s
  JOIN object_life l ON l.run_id = s.run_id AND l.object_id = s.storage_id AND l.storage_id IS NOT NULL
  LEFT JOIN storage_request q ON q.storage_id = s.storage_id
), point AS (
  SELECT
    run_id, device_id, address, 0 AS place, allocation_id, end_address, CAST(0 AS BIGINT UNSIGNED) AS size_bytes,
    true AS is_live
  FROM part
  UNION ALL
  SELECT run_id, device_id, address, 1, CAST(NULL AS BIGINT UNSIGNED), CAST(NULL AS BIGINT UNSIGNED), size_bytes, is_live
  FROM object
), inside AS (
  -- The part that begins last before an address is that of the address, if it is long enough.
  SELECT
    *,
    last_value(allocation_id) IGNORE NULLS OVER so_far AS part_id,
    last_value(end_address) IGNORE NULLS OVER so_far AS part_end
  FROM point
  WINDOW so_far AS (PARTITION BY run_id, device_id ORDER BY address, place ROWS UNBOUNDED PRECEDING)
), used AS (
  SELECT DISTINCT run_id, device_id, part_id FROM inside WHERE place = 1 AND address < part_end
), piece AS (
  SELECT
    i.run_id, i.device_id, i.part_id, i.address + i.size_bytes AS begin_address,
    coalesce(lead(i.address) OVER (PARTITION BY i.run_id, i.device_id, i.part_id ORDER BY i.address, i.place), i.part_end)
      AS end_address
  FROM inside i
  JOIN used u ON u.run_id = i.run_id AND u.device_id = i.device_id AND u.part_id = i.part_id
  WHERE i.is_live AND i.address < i.part_end
), unused AS (
  SELECT
    run_id, device_id, count(*) AS pieces, sum(CAST(end_address - begin_address AS BIGINT)) AS bytes,
    max(CAST(end_address - begin_address AS BIGINT)) AS largest
  FROM piece
  WHERE end_address > begin_address
  GROUP BY run_id, device_id
), reserved AS (
  SELECT a.run_id, a.device_id, count(*) AS parts, sum(CAST(a.size_bytes AS BIGINT)) AS bytes
  FROM part a
  JOIN used u ON u.run_id = a.run_id AND u.device_id = a.device_id AND u.part_id = a.allocation_id
  GROUP BY a.run_id, a.device_id
), requested AS (
  SELECT run_id, device_id, count(requested_bytes) AS requests, sum(CAST(requested_bytes AS BIGINT)) AS bytes
  FROM object
  WHERE is_live
  GROUP BY run_id, device_id
)
SELECT
  p.run_id, p.device_id, p.live_bytes, q.bytes, coalesce(q.requests, 0), r.bytes, coalesce(r.parts, 0),
  CASE WHEN r.bytes IS NOT NULL THEN coalesce(u.bytes, 0) END,
  CASE WHEN r.bytes IS NOT NULL THEN coalesce(u.pieces, 0) END,
  CASE WHEN r.bytes IS NOT NULL THEN coalesce(u.largest, 0) END,
  1.0 - u.largest / nullif(CAST(u.bytes AS DOUBLE), 0.0)
FROM peak p
LEFT JOIN reserved r ON r.run_id = p.run_id AND r.device_id = p.device_id
LEFT JOIN unused u ON u.run_id = p.run_id AND u.device_id = p.device_id
LEFT JOIN requested q ON q.run_id = p.run_id AND q.device_id = p.device_id
