-- How one instruction of one launch accesses memory.
--
-- Sectors are units of 32 bytes, distinct in each warp request; ideal is the fewest that could hold the bytes.
CREATE VIEW access_pattern (
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
  -- Warp requests.
  request_count,
  -- Lane accesses.
  lane_count,
  -- Sectors touched.
  sectors,
  -- Sectors beyond the ideal.
  excess_sectors,
  -- Bytes of the union divided by the bytes of the sectors.
  efficiency,
  -- The most frequent class of its requests: broadcast, unit, strided, gather.
  class,
  -- Requests of unit stride that do not begin on a sector.
  misaligned_count
) AS
WITH class AS (
  SELECT
    kernel_id, function_id, pc, kind, space,
    count(*) AS request_count,
    sum(CAST(lane_count(lane_mask) AS BIGINT)) AS lane_count,
    sum(CASE WHEN stride_bytes = 0 THEN 1 ELSE 0 END) AS broadcast,
    sum(CASE WHEN stride_bytes <> 0 AND abs(stride_bytes) = access_bytes THEN 1 ELSE 0 END) AS unit,
    sum(CASE WHEN stride_bytes <> 0 AND abs(stride_bytes) <> access_bytes THEN 1 ELSE 0 END) AS strided,
    sum(CASE WHEN stride_bytes IS NULL THEN 1 ELSE 0 END) AS gather,
    sum(CASE WHEN abs(stride_bytes) = access_bytes AND address % 32 <> 0 THEN 1 ELSE 0 END) AS misaligned
  FROM memory_access
  GROUP BY kernel_id, function_id, pc, kind, space
), touched AS (
  SELECT
    kernel_id, function_id, pc, kind, space,
    CAST(sum(sectors) AS BIGINT) AS sectors,
    CAST(sum(ideal_sectors) AS BIGINT) AS ideal,
    sum(unique_bytes) AS bytes
  FROM pc_tensor
  GROUP BY kernel_id, function_id, pc, kind, space
)
SELECT
  c.kernel_id, c.function_id, c.pc, c.kind, c.space, c.request_count, c.lane_count, t.sectors,
  greatest(t.sectors - t.ideal, 0),
  CASE WHEN t.sectors > 0 THEN t.bytes / (32.0 * t.sectors) END,
  CASE greatest(c.broadcast, c.unit, c.strided, c.gather)
    WHEN c.unit THEN 'unit' WHEN c.broadcast THEN 'broadcast' WHEN c.strided THEN 'strided' ELSE 'gather'
  END,
  c.misaligned
FROM class c
JOIN touched t
  ON t.kernel_id = c.kernel_id AND t.function_id = c.function_id AND t.pc = c.pc
  AND t.kind = c.kind AND t.space = c.space
