-- Accesses of one instruction of one launch outside of the memory that was meant.
--
-- defect: outside every allocation (of the driver), outside every tensor (in memory that the framework's allocator
-- divides, and in no storage of it), outside the view (in the storage of a tensor that the kernel was given, and not in
-- the tensor), in other memory (a live storage or allocation behind the one to which the pointer leads from which the code
-- computes the address: `access_pointer_use`). Else the memory that was meant is what the nearest pointer among the
-- launch's parameters leads to.
--
-- Only what the capture proves: the arguments of a kernel are known for Triton, and by pointers for launches outside of
-- ops. Accesses to live memory before the pointer's, or by pointers from memory, are not found. Nodes of graphs are not judged.
CREATE VIEW out_of_bounds (
  kernel_id,
  function_id,
  pc,
  source_line,
  call_path,
  -- Kind of access: read, write, atomic.
  kind,
  -- The defect.
  defect,
  -- Type of the memory that was meant, as in `target_context`.
  target,
  -- Its storage.
  storage_id,
  tensor_id,
  -- The driver's allocation, outside any storage.
  allocation_id,
  object,
  type,
  -- Index of the lowest wrong element, by the tensor's strides: an index outside of its shape. Null without a tensor.
  element,
  -- Bytes from the start of what was meant to the lowest wrong byte.
  byte_offset,
  -- Wrong accesses, by lanes.
  lane_count,
  -- Warp requests with such lanes.
  request_count,
  -- The lowest wrong byte.
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
  kernel_id, function_id, pc, source_line, call_path, kind, defect, target, storage_id, tensor_id, allocation_id, object, type,
  element, byte_offset, lane_count, request_count, address, block, warp, lane_mask, line, op
FROM fault_context
WHERE source = 'address_fault' AND defect NOT IN ('after free', 'misaligned')
