-- Memory access pattern of one instruction of one launch, over its warp requests.
--
-- Sectors are units of 32 bytes, lines of 128, both distinct in each request. ideal is the fewest sectors that hold the
-- bytes. `access_shape` has each request, and defines the classes. Sectors are meaningful for global and local memory.
-- For shared memory see `bank_conflict`. Instructions that no instrument observes have no row. Where the GPU counted the
-- shapes of a launch's requests (`access_histogram`), all of them are here. Other counts are of the rows that the capture
-- holds: where these are a sample of blocks (`launch_access`), ratios are estimates, and `pc_tensor` has the exact requests
-- and sectors. Launches with the accesses of a model launch have no row.
CREATE VIEW request_pattern (
  kernel_id,
  function_id,
  pc,
  kind,
  -- Memory space: global, global_async, shared, local.
  space,
  -- Bytes that each lane accesses.
  access_bytes,
  -- Warp requests. One whose lanes lie too far apart for one row of `memory_access`, 4 GiB or more, counts once a
  -- row. These rows share no sector.
  request_count,
  -- Lane accesses.
  lane_count,
  -- Part of the lanes of its warps that were active.
  lane_use,
  -- Sectors touched.
  sectors,
  -- Lines touched.
  line_count,
  -- Bytes of the union, in each request.
  unique_bytes,
  -- The fewest sectors that hold them.
  ideal_sectors,
  -- Sectors beyond the ideal.
  excess_sectors,
  -- Bytes of the union divided by the bytes of the sectors: 1 if every moved byte is used.
  efficiency,
  -- Sectors per request, as in the hardware counters.
  sectors_per_request,
  -- The most frequent class of its requests: broadcast, unit, strided, tiled, gather.
  class,
  -- Part of the requests in which all lanes access one address, or only one lane is active.
  broadcast_share,
  -- Part with adjacent lanes, ascending or descending.
  unit_share,
  -- Part with equal distances between lanes.
  strided_share,
  -- Part with few distinct distances between lanes.
  tiled_share,
  -- Part with any other distances.
  gather_share,
  -- Requests of unit stride that do not begin on a sector.
  misaligned_count
) AS
WITH shaped AS (
  SELECT
    kernel_id, function_id, pc, kind, space, access_bytes, request_count, lane_count, sectors * request_count AS sectors,
    line_count, unique_bytes, ideal_sectors, class, CASE WHEN is_misaligned THEN request_count ELSE 0 END AS misaligned
  FROM access_histogram
  UNION ALL
  SELECT
    s.kernel_id, s.function_id, s.pc, s.kind, s.space, s.access_bytes, s.request_count, s.lane_count, s.sectors,
    s.line_count, s.unique_bytes, s.ideal_sectors, s.class, s.misaligned_count
  FROM access_class s
  LEFT ANTI JOIN access_histogram h ON h.kernel_id = s.kernel_id
), summed AS (
  SELECT
    kernel_id, function_id, pc, kind, space,
    max(access_bytes) AS access_bytes,
    CAST(sum(request_count) AS BIGINT) AS requests,
    CAST(sum(lane_count) AS BIGINT) AS lanes,
    CAST(sum(sectors) AS BIGINT) AS sectors,
    CAST(sum(line_count) AS BIGINT) AS line_count,
    CAST(sum(unique_bytes) AS BIGINT) AS unique_bytes,
    CAST(sum(ideal_sectors) AS BIGINT) AS ideal,
    CAST(sum(CASE WHEN class = 'broadcast' THEN request_count ELSE 0 END) AS BIGINT) AS broadcast,
    CAST(sum(CASE WHEN class = 'unit' THEN request_count ELSE 0 END) AS BIGINT) AS unit,
    CAST(sum(CASE WHEN class = 'strided' THEN request_count ELSE 0 END) AS BIGINT) AS strided,
    CAST(sum(CASE WHEN class = 'tiled' THEN request_count ELSE 0 END) AS BIGINT) AS tiled,
    CAST(sum(CASE WHEN class = 'gather' THEN request_count ELSE 0 END) AS BIGINT) AS gather,
    CAST(sum(misaligned) AS BIGINT) AS misaligned
  FROM shaped
  GROUP BY kernel_id, function_id, pc, kind, space
)
SELECT
  kernel_id, function_id, pc, kind, space, access_bytes, requests, lanes, lanes / (32.0 * requests), sectors, line_count,
  unique_bytes, ideal, sectors - ideal,
  CASE WHEN sectors > 0 THEN unique_bytes / (32.0 * sectors) END,
  CAST(sectors AS DOUBLE) / requests,
  CASE greatest(broadcast, unit, strided, tiled, gather)
    WHEN unit THEN 'unit' WHEN broadcast THEN 'broadcast' WHEN strided THEN 'strided' WHEN tiled THEN 'tiled'
    ELSE 'gather'
  END,
  CAST(broadcast AS DOUBLE) / requests, CAST(unit AS DOUBLE) / requests, CAST(strided AS DOUBLE) / requests,
  CAST(tiled AS DOUBLE) / requests, CAST(gather AS DOUBLE) / requests, misaligned
FROM summed
