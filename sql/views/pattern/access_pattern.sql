-- One instruction of one launch: the main figures of its memory accesses from `request_pattern`.
--
-- Sectors are units of 32 bytes, distinct in each warp request. ideal is the fewest that hold the bytes.
-- Counts are of the rows that the capture holds, as in `request_pattern`.
CREATE VIEW access_pattern (
  kernel_id,
  function_id,
  pc,
  kind,
  -- Memory space: global, global_async, shared, local.
  space,
  request_count,
  -- Lane accesses.
  lane_count,
  -- Sectors touched.
  sectors,
  -- Sectors beyond the ideal.
  excess_sectors,
  -- Bytes of the union divided by the bytes of the sectors.
  efficiency,
  -- The most frequent class of its requests: broadcast, unit, strided, tiled, gather.
  class,
  -- Requests of unit stride that do not begin on a sector.
  misaligned_count
) AS
SELECT
  kernel_id, function_id, pc, kind, space, request_count, lane_count, sectors, excess_sectors, efficiency, class,
  misaligned_count
FROM request_pattern
