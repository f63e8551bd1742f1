-- Accesses of one instruction of one launch to one target, summed over its warp requests.
--
-- Exact where the GPU counted a launch's accesses (`access_summary`) or the capture holds all of them. A capture holds the
-- accesses of each launch once: from the program, or, if it has none, from one replay. Where `launch.accesses_of` names
-- an earlier launch of the same kind, its counts stand for this launch's. `coverage` has the numbers of such launches.
CREATE VIEW pc_tensor (
  kernel_id,
  function_id,
  pc,
  kind,
  -- Memory space: global, global_async, shared, local.
  space,
  -- Target of the lanes: tensor, storage (in it, but in none of its views), outside any tensor (in a driver
  -- allocation), unknown address, not global.
  target,
  -- observed (this launch's accesses), model launch (those of the launch that `launch.accesses_of` names, at the
  -- addresses of this launch's parameters).
  evidence,
  storage_id,
  tensor_id,
  allocation_id,
  -- Warp requests with lanes that belong to the target.
  request_count,
  -- Lanes of these requests in the target.
  lane_count,
  -- Sectors of 32 bytes that they touch, distinct in each request.
  sectors,
  -- Bytes of the union of their accesses, in each request.
  unique_bytes,
  -- The fewest sectors that hold those bytes.
  ideal_sectors
) AS
SELECT
  kernel_id, function_id, pc, kind, space, target, evidence, storage_id, tensor_id, allocation_id,
  sum(request_count), sum(lane_count), sum(sectors), sum(unique_bytes), sum(ideal_sectors)
FROM pc_tensor_part
GROUP BY kernel_id, function_id, pc, kind, space, target, evidence, storage_id, tensor_id, allocation_id
