-- Accesses of one instruction of one launch at addresses that its bytes do not divide: the GPU ends the launch with an error.
--
-- The launch's requests until then are in the capture.
CREATE VIEW alignment_fault (
  kernel_id,
  function_id,
  pc,
  source_line,
  call_path,
  -- Kind of access: read, write, atomic.
  kind,
  -- Bytes per lane.
  access_bytes,
  -- Type of the memory, as in `target_context`.
  target,
  -- Its storage.
  storage_id,
  tensor_id,
  -- The driver's allocation, outside any storage.
  allocation_id,
  object,
  type,
  -- Index of the lowest such element, by the tensor's strides. Null without a tensor.
  element,
  -- Bytes from the start of the memory to it.
  byte_offset,
  -- Such accesses, by lanes.
  lane_count,
  -- The lowest such address.
  address,
  -- The block that accesses it.
  block,
  warp,
  -- The lanes.
  lane_mask,
  line,
  op
) AS
SELECT
  f.kernel_id, f.function_id, f.pc, f.source_line, f.call_path, f.kind, i.memory_bytes, f.target, f.storage_id, f.tensor_id,
  f.allocation_id, f.object, f.type, f.element, f.byte_offset, f.lane_count, f.address, f.block, f.warp, f.lane_mask, f.line, f.op
FROM fault_context f
LEFT JOIN instruction i ON i.function_id = f.function_id AND i.pc = f.pc
WHERE f.source = 'address_fault' AND f.defect = 'misaligned'
