-- Bytes of shared memory that two warps of a block access, or two lanes of a warp, of which one writes, in no order.
--
-- Between warps: no barrier of the block lies between. An asynchronous copy (`cp.async`) writes until its warp waits for it. Between
-- lanes: no `__syncwarp`, barrier or exchange of lanes lies between, in code that has lines of source. Blocks of one warp may rely
-- on its order, and are not judged. Nor are two writes by one instruction of Triton: warps that hold the same elements store the same values.
--
-- Needs recorded accesses to shared memory (`--spaces global,shared`), none of them dropped (`--when-full wait`). Only kernels
-- whose warps are ordered by barriers of the complete block alone are judged: `barrier_step` has them.
CREATE VIEW shared_race (
  kernel_id,
  -- The function that holds the instruction that writes.
  function_id,
  pc,
  source_line,
  call_path,
  -- Its kind of access: write, atomic.
  kind,
  -- The function that holds the other instruction.
  other_function_id,
  -- The other instruction.
  other_pc,
  -- Its line in the function, outside of all inlined ones.
  other_source_line,
  -- The functions inlined around it.
  other_call_path,
  -- Kind of the other access: read, write, atomic.
  other_kind,
  -- Bytes from the start of the block's shared memory to one such byte.
  byte_offset,
  -- Bytes that both instructions access, in all blocks.
  byte_count,
  -- A block.
  block,
  -- A warp that writes the byte.
  warp,
  -- The lanes of its request.
  lane_mask,
  -- Another warp that accesses it, or the same if it is another lane.
  other_warp,
  -- The lanes of its request.
  other_lane_mask,
  -- Barriers that both warps have passed before.
  barrier_count,
  line,
  op
) AS
WITH dropping AS (
  SELECT DISTINCT run_id FROM run_option WHERE name = 'when_full' AND value <> 'wait'
)
SELECT
  f.kernel_id, f.function_id, f.pc, p.source_line, p.call_path, f.kind, f.other_function_id, f.other_pc, q.source_line,
  q.call_path, f.other_kind, f.address, f.byte_count, f.block, f.warp, f.lane_mask, f.other_warp, f.other_lane_mask,
  f.barrier_count, line_label(l.line, l.forward_line), l.op
FROM shared_conflict f
JOIN launch_context l ON l.kernel_id = f.kernel_id
JOIN launch k ON k.kernel_id = f.kernel_id
LEFT JOIN access_line p ON p.function_id = f.function_id AND p.pc = f.pc
LEFT JOIN access_line q ON q.function_id = f.other_function_id AND q.pc = f.other_pc
LEFT JOIN dropping d ON d.run_id = l.run_id
WHERE d.run_id IS NULL AND NOT (f.pc = f.other_pc AND f.kind = 'write' AND p.source_line LIKE '%.py:%')
  AND (f.warp <> f.other_warp OR p.source_line IS NOT NULL AND k.block_x * k.block_y * k.block_z > 32)
