-- Which kernels would caches help, and do blocks share memory?
-- reuse_percent of the touches hit a sector that the launch has touched before. An LRU cache of the size of L1 or L2
-- would hold l1_percent and l2_percent. sharing is the average number of blocks that read a sector: 1 if none is
-- shared.
-- Capture: inference_views
SELECT
  n.short_kernel AS kernel, r.touches, round(100.0 * r.reuse_share, 1) AS reuse_percent,
  round(r.mean_distance) AS mean_distance, round(100.0 * r.l1_hit_share, 1) AS l1_percent,
  round(100.0 * r.l2_hit_share, 1) AS l2_percent, round(b.sharing, 2) AS sharing,
  b.median_footprint_bytes AS block_bytes
FROM reuse r
JOIN launch l ON l.kernel_id = r.kernel_id
JOIN kernel_name n ON n.function_id = l.function_id
LEFT JOIN block_sharing b ON b.kernel_id = r.kernel_id AND b.kind = 'read'
WHERE r.stream = 'launch' AND r.unit_bytes = 32
ORDER BY r.touches DESC, r.kernel_id
LIMIT 5
