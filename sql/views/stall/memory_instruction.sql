-- One instruction that was observed to access memory, over all launches.
CREATE VIEW memory_instruction (
  -- The function.
  function_id,
  pc,
  kind,
  -- Memory space: global, global_async, shared, local.
  space,
  request_count,
  -- Lane accesses.
  lane_count
) AS
SELECT function_id, pc, kind, space, sum(request_count), sum(lane_count)
FROM pc_tensor
GROUP BY function_id, pc, kind, space
