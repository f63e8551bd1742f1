-- How one instruction of one launch accesses memory, over its warp requests.
--
-- Sectors are units of 32 bytes, lines of 128, both distinct in each request; ideal is the fewest sectors that could hold
-- the bytes. `access_shape` has each request, and says what the classes mean. Sectors mean something for global and local
-- memory; for shared memory see `bank_conflict`. Instructions that no instrument observes have no row.
CREATE VIEW request_pattern (
  -- The launch.
  kernel_id,
  -- The function that holds the instruction.
  function_id,
  -- The instruction.
  pc,
  -- What it does: read, write, atomic, prefetch.
  kind,
  -- Where: global, global_async, shared, local.
  space,
  -- Bytes that each lane accesses.
  access_bytes,
  -- Warp requests.
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
  -- The fewest sectors that could have held them.
  ideal_sectors,
  -- Sectors beyond the ideal.
  excess_sectors,
  -- Bytes of the union divided by the bytes of the sectors: 1 where every byte moved is used.
  efficiency,
  -- Sectors a request: what the hardware's counters call sectors per request.
  sectors_per_request,
  -- The most frequent class of its requests: broadcast, unit, strided, tiled, gather.
  class,
  -- Part of the requests in which all lanes access one address, or one lane is alone.
  broadcast_share,
  -- Part in which the lanes lie side by side, up or down.
  unit_share,
  -- Part in which they lie at equal distances.
  strided_share,
  -- Part in which there are few distances from lane to lane.
  tiled_share,
  -- Part in which the lanes lie any other way.
  gather_share,
  -- Requests of unit stride that do not begin on a sector.
  misaligned_count
) AS
WITH summed AS (
  SELECT
    kernel_id, function_id, pc, kind, space,
    max(access_bytes) AS access_bytes,
    count(*) AS requests,
    CAST(sum(lane_count) AS BIGINT) AS lanes,
    CAST(sum(sectors) AS BIGINT) AS sectors,
    CAST(sum(line_count) AS BIGINT) AS line_count,
    CAST(sum(unique_bytes) AS BIGINT) AS unique_bytes,
    CAST(sum(ideal_sectors) AS BIGINT) AS ideal,
    sum(CASE WHEN class = 'broadcast' THEN 1 ELSE 0 END) AS broadcast,
    sum(CASE WHEN class = 'unit' THEN 1 ELSE 0 END) AS unit,
    sum(CASE WHEN class = 'strided' THEN 1 ELSE 0 END) AS strided,
    sum(CASE WHEN class = 'tiled' THEN 1 ELSE 0 END) AS tiled,
    sum(CASE WHEN class = 'gather' THEN 1 ELSE 0 END) AS gather,
    sum(CASE WHEN is_misaligned THEN 1 ELSE 0 END) AS misaligned
  FROM access_shape
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
