-- Accesses of one instruction of one launch to memory that was freed before the launch.
--
-- The memory is freed by the driver, or by the framework's allocator and not allocated again. A pointer among the
-- launch's parameters leads to it, or the kernel reads the pointer from memory. Memory that the allocator has handed to another tensor is that tensor's: an access
-- through an old pointer is not found.
CREATE VIEW use_after_free (
  kernel_id,
  function_id,
  pc,
  source_line,
  call_path,
  -- Kind of access: read, write, atomic.
  kind,
  -- Type of the memory, as in `target_context`: storage, outside any tensor (an allocation of the driver).
  target,
  -- The freed storage.
  storage_id,
  -- The newest tensor in it.
  tensor_id,
  -- The freed allocation.
  allocation_id,
  object,
  type,
  -- Index of the lowest element, by the tensor's strides. Null without a tensor.
  element,
  -- Bytes from the start of the memory to the lowest byte.
  byte_offset,
  born_at,
  -- Ordinal of the first launch after the free.
  free_ordinal,
  -- Launches between the free and this launch.
  launches_since,
  -- Accesses, by lanes.
  lane_count,
  request_count,
  -- The lowest byte.
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
  f.kernel_id, f.function_id, f.pc, f.source_line, f.call_path, f.kind, f.target, f.storage_id, f.tensor_id, f.allocation_id,
  f.object, f.type, f.element, f.byte_offset, f.born_at, f.free_ordinal,
  CAST(l.ordinal AS BIGINT) - CAST(f.free_ordinal AS BIGINT), f.lane_count, f.request_count, f.address, f.block, f.warp,
  f.lane_mask, f.line, f.op
FROM fault_context f
JOIN launch l ON l.kernel_id = f.kernel_id
WHERE f.source = 'address_fault' AND f.defect = 'after free'
