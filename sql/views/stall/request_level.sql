-- Levels of memory that serve the sectors of one instruction, over all launches with recorded accesses.
--
-- `launch_request_level` has each launch, and the rule.
CREATE VIEW request_level (
  -- The function.
  function_id,
  pc,
  -- Its warp requests.
  requests,
  -- Lines of 128 bytes that they touch.
  lines,
  -- Sectors of 32 bytes that they touch.
  sectors,
  -- Part of the sectors that L1 holds. 0 if the instruction bypasses L1.
  l1_share,
  -- Part that L2 holds, and L1 does not.
  l2_share,
  -- The rest: part that comes from device memory.
  device_share,
  -- Warps of its launches on one multiprocessor, whose requests share a way to memory.
  resident_warps
) AS
SELECT
  function_id, pc, CAST(sum(requests) AS BIGINT), CAST(sum(lines) AS BIGINT), sum(sectors),
  sum(l1_sectors) / sum(sectors), (sum(l2_sectors) - sum(l1_sectors)) / sum(sectors),
  1.0 - sum(l2_sectors) / sum(sectors), sum(resident_warps * sectors) / sum(sectors)
FROM launch_request_level
GROUP BY function_id, pc
HAVING sum(sectors) > 0
