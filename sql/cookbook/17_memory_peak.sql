-- Which memory is allocated at the peak?
-- Lifetimes are ordinals of launches. No last_use: no use was recorded. No free: it was never freed. peak_bytes are in
-- use at the peak. least_bytes would suffice if everything were allocated at its first use and freed after its last.
-- Capture: transformer_step
SELECT
  o.object, o.type, o.born_at, count(*) AS storages, sum(o.size_bytes) AS bytes,
  min(o.alloc_ordinal) AS alloc, min(o.last_use_ordinal) AS last_use, max(o.free_ordinal) AS free,
  p.ordinal AS peak, p.live_bytes AS peak_bytes, p.least_bytes
FROM object_life o
JOIN memory_peak p ON p.run_id = o.run_id AND p.device_id = o.device_id
WHERE o.is_live_at_peak
GROUP BY o.object, o.type, o.born_at, p.ordinal, p.live_bytes, p.least_bytes
ORDER BY bytes DESC, o.object, o.born_at
LIMIT 8
