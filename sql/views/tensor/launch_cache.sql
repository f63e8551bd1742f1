-- One launch: the caches of its GPU, and the warps that share one L1. Null if the GPU is unknown.
CREATE VIEW launch_cache (
  kernel_id,
  -- Bytes of L1 of one multiprocessor, including shared memory.
  l1_bytes,
  -- Bytes of L2.
  l2_bytes,
  -- Warps of the launch on one multiprocessor, limited by its grid, by registers and by the maximum.
  resident_warps
) AS
WITH gpu AS (
  SELECT
    l.kernel_id, max(d.l2_bytes) AS l2_bytes, max(d.multiprocessor_count) AS multiprocessor_count,
    max(CASE d.compute_major * 10 + d.compute_minor
      WHEN 70 THEN 131072 WHEN 75 THEN 98304 WHEN 80 THEN 196608 WHEN 86 THEN 131072 WHEN 87 THEN 196608 WHEN 89 THEN 131072
      WHEN 90 THEN 262144 WHEN 100 THEN 262144 WHEN 103 THEN 262144 WHEN 120 THEN 131072
    END) AS l1_bytes
  FROM launch l
  JOIN device d ON d.run_id = l.run_id
  GROUP BY l.kernel_id
)
SELECT
  g.kernel_id, g.l1_bytes, g.l2_bytes,
  least(
    ceil(CAST(l.grid_x AS DOUBLE) * l.grid_y * l.grid_z / nullif(g.multiprocessor_count, 0))
      * ceil(CAST(l.block_x AS DOUBLE) * l.block_y * l.block_z / 32),
    2048.0 / nullif(l.register_count, 0), 64.0)
FROM gpu g
JOIN launch l ON l.kernel_id = g.kernel_id
