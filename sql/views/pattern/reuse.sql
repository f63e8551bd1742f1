-- Temporal reuse of memory by one launch, in one stream of requests, and the potential hit rate of caches.
--
-- The distance of a touch is the number of distinct other units touched since the last touch of the same unit.
-- `reuse_distance` has the histogram, and defines streams and units. An LRU cache of N units holds a touch whose
-- distance is below N. This is an upper bound: sets, sectors and other traffic reduce it. If the capacity cuts a
-- histogram bin (a power of two of distances), the bin counts in part. Between warps, the order is that of the recorded
-- run. Where the capture holds the requests of a sample of blocks (`launch_access`), the figures of blocks are theirs, and
-- shares and distances of the launch are null.
CREATE VIEW reuse (
  kernel_id,
  -- Stream of consecutive requests: block, launch.
  stream,
  -- Bytes of a unit: 32 or 128.
  unit_bytes,
  -- Touches of units, distinct in each request.
  touches,
  -- First touches.
  cold_touches,
  -- Part of the touches that are not the first.
  reuse_share,
  -- Mean distance of those.
  mean_distance,
  -- Bytes of L1 of one multiprocessor, including shared memory. Null if the GPU is unknown.
  l1_bytes,
  -- Part of the touches that an LRU cache of this size would hold.
  l1_hit_share,
  -- Bytes of L2.
  l2_bytes,
  -- Part of the touches that an LRU cache of this size would hold.
  l2_hit_share,
  -- Sampled part of all lines: 1 if the figures are exact.
  line_rate
) AS
WITH counted AS (
  SELECT
    r.*, r.stream = 'launch' AND a.is_sampled AS is_incomplete, g.l1_bytes, g.l2_bytes,
    CAST(g.l1_bytes / r.unit_bytes AS DOUBLE) AS l1_units, CAST(g.l2_bytes / r.unit_bytes AS DOUBLE) AS l2_units,
    CAST(r.distance_from AS DOUBLE) AS low, CAST(r.distance_to AS DOUBLE) - CAST(r.distance_from AS DOUBLE) AS width
  FROM reuse_distance r
  JOIN launch_access a ON a.kernel_id = r.kernel_id
  LEFT JOIN launch_cache g ON g.kernel_id = r.kernel_id
)
SELECT
  kernel_id, stream, unit_bytes, CAST(sum(touches) AS BIGINT),
  CASE WHEN NOT bool_or(is_incomplete) THEN CAST(sum(CASE WHEN reuse = 'cold' THEN touches ELSE 0 END) AS BIGINT) END,
  CAST(sum(CASE WHEN is_incomplete THEN NULL WHEN reuse = 'reused' THEN touches ELSE 0 END) AS DOUBLE)
    / nullif(sum(touches), 0),
  sum(CASE WHEN reuse = 'reused' AND NOT is_incomplete THEN mean_distance * touches END)
    / nullif(sum(CASE WHEN reuse = 'reused' THEN touches ELSE 0 END), 0),
  max(l1_bytes),
  sum(CASE
      WHEN is_incomplete THEN NULL WHEN reuse <> 'reused' THEN 0.0
      ELSE touches * greatest(least((l1_units - low) / width, 1.0), 0.0)
    END)
    / nullif(sum(touches), 0),
  max(l2_bytes),
  sum(CASE
      WHEN is_incomplete THEN NULL WHEN reuse <> 'reused' THEN 0.0
      ELSE touches * greatest(least((l2_units - low) / width, 1.0), 0.0)
    END)
    / nullif(sum(touches), 0),
  min(line_rate)
FROM counted
GROUP BY kernel_id, stream, unit_bytes
