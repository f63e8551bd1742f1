-- Peaks of memory
-- The maximum of the memory in use of each GPU, and when. reserved: bytes that the framework's allocator holds then.
-- unused: its bytes without an object, largest unused: the largest piece, fragmentation: the part outside of that piece.
-- failed: bytes of an allocation that failed, the largest, with the free bytes of the GPU then, and its line.
WITH failure AS (
  SELECT
    f.run_id, f.device_id, count(*) AS failures,
    first_value(f.requested_bytes ORDER BY f.requested_bytes DESC NULLS LAST, f.time_ns) AS failed_bytes,
    first_value(f.free_bytes ORDER BY f.requested_bytes DESC NULLS LAST, f.time_ns) AS free_bytes,
    first_value(x.line ORDER BY f.requested_bytes DESC NULLS LAST, f.time_ns) AS line
  FROM allocation_failure f
  LEFT JOIN op_context x ON x.op_id = f.op_id
  GROUP BY f.run_id, f.device_id
)
SELECT
  r.rank, p.device_id, p.live_bytes AS peak_bytes,
  CASE WHEN v.requested_count = p.object_count THEN v.requested_bytes END AS requested_bytes,
  v.reserved_bytes, v.unused_bytes, v.unused_count, v.largest_unused_bytes, v.fragmentation, f.failures, f.failed_bytes, f.free_bytes, f.line AS failed_at, p.ordinal,
  p.line AS peak_at
FROM memory_peak p
JOIN run r ON r.run_id = p.run_id
LEFT JOIN memory_reserve v ON v.run_id = p.run_id AND v.device_id = p.device_id
LEFT JOIN failure f ON f.run_id = p.run_id AND f.device_id = p.device_id
ORDER BY r.rank NULLS FIRST, p.device_id, p.run_id
LIMIT $top
