-- One instruction that was observed to access memory, over all launches.
CREATE VIEW memory_instruction (
  -- The function.
  function_id,
  -- The instruction.
  pc,
  -- Kind of access: read, write, atomic, prefetch.
  kind,
  -- Memory space: global, global_async, shared, local.
  space,
  -- Warp requests.
  request_count,
  -- Lane accesses.
  lane_count
) AS
SELECT function_id, pc, kind, space, sum(request_count), sum(lane_count)
FROM pc_tensor
GROUP BY function_id, pc, kind, space
