-- What one instruction of one launch accessed of one target, summed over its warp requests.
--
-- A capture holds the accesses of each launch once: as the program made them, or, where it has none, of one replay.
CREATE VIEW pc_tensor (
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
  -- What the lanes belong to: tensor, storage (in it, but in no view of it), outside any tensor (in an allocation of
  -- the driver), unknown address, not global.
  target,
  -- The storage.
  storage_id,
  -- The tensor.
  tensor_id,
  -- The allocation of the driver, outside any tensor.
  allocation_id,
  -- Warp requests with lanes that belong to the target.
  request_count,
  -- Those lanes.
  lane_count,
  -- Sectors of 32 bytes that they touch, distinct in each request.
  sectors,
  -- Bytes of the union of what they touch, in each request.
  unique_bytes,
  -- The fewest sectors that could have held those bytes.
  ideal_sectors
) AS
SELECT
  kernel_id, function_id, pc, kind, space, target, storage_id, tensor_id, allocation_id,
  sum(request_count), sum(lane_count), sum(sectors), sum(unique_bytes), sum(ideal_sectors)
FROM pc_tensor_part
GROUP BY kernel_id, function_id, pc, kind, space, target, storage_id, tensor_id, allocation_id
