-- Bytes of device memory that two blocks of one launch access, of which one writes, with nothing that orders the two.
--
-- The result depends on the order in which blocks run. Kernels with atomics of device memory, fences of the GPU or cluster
-- barriers (`ordered_kernel`) are not judged: their blocks may wait for each other. Accesses that are both strong
-- (volatile, relaxed) are not a race. Values are not recorded: two writes of one instruction do no harm where all blocks
-- write the same value.
CREATE VIEW block_race (
  kernel_id,
  -- The function that holds the instruction that writes.
  function_id,
  pc,
  source_line,
  call_path,
  -- The function that holds the other instruction.
  other_function_id,
  -- The other instruction.
  other_pc,
  -- Its line in the function, outside of all inlined ones.
  other_source_line,
  -- The functions inlined around it.
  other_call_path,
  -- Kind of the other access: read, write.
  other_kind,
  -- Type of the memory, as in `target_context`.
  target,
  -- Its storage.
  storage_id,
  tensor_id,
  -- The driver's allocation, outside any storage.
  allocation_id,
  object,
  type,
  -- Index of one such element, by the tensor's strides. Null without a tensor.
  element,
  -- Bytes from the start of the memory to it.
  byte_offset,
  -- Bytes that both instructions access.
  byte_count,
  -- The element's address.
  address,
  -- A block that writes it.
  block,
  warp,
  -- The lanes of its request.
  lane_mask,
  -- Another block that accesses it.
  other_block,
  -- Its warp.
  other_warp,
  -- The lanes of its request.
  other_lane_mask,
  line,
  op
) AS
SELECT
  f.kernel_id, f.function_id, f.pc, f.source_line, f.call_path, f.other_function_id, f.other_pc, q.source_line, q.call_path,
  f.other_kind, f.target, f.storage_id, f.tensor_id, f.allocation_id, f.object, f.type, f.element, f.byte_offset, f.byte_count,
  f.address, f.block, f.warp, f.lane_mask, f.other_block, f.other_warp, f.other_lane_mask, f.line, f.op
FROM fault_context f
JOIN launch l ON l.kernel_id = f.kernel_id
JOIN function_code k ON k.function_id = l.function_id AND k.is_read AND k.unknown_count = 0
JOIN access_line p ON p.function_id = f.function_id AND p.pc = f.pc
JOIN access_line q ON q.function_id = f.other_function_id AND q.pc = f.other_pc
LEFT JOIN ordered_kernel o ON o.function_id = l.function_id
WHERE f.source = 'block_conflict' AND f.kind = 'write' AND f.other_kind IN ('read', 'write') AND o.function_id IS NULL
  AND NOT (p.instruction LIKE '%.STRONG.%' AND q.instruction LIKE '%.STRONG.%')
