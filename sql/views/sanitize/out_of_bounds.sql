-- Accesses of one instruction of one launch outside of the memory that was meant.
--
-- defect: outside every allocation (of the driver), outside every tensor (in memory that the framework's allocator
-- divides, and in no storage of it), outside the view (in the storage of a tensor that the kernel was given, and not in
-- the tensor). The memory that was meant is what the nearest pointer among the launch's parameters leads to.
--
-- Only what the capture proves: the arguments of a kernel are known for Triton, and by pointers for launches outside of
-- ops. Accesses to another live allocation are not found. Nodes of graphs are not judged.
CREATE VIEW out_of_bounds (
  -- The launch.
  kernel_id,
  -- The function that holds the instruction.
  function_id,
  -- The instruction.
  pc,
  -- Its line in the function, outside of all inlined ones.
  source_line,
  -- The functions inlined around it. See `access_line`.
  call_path,
  -- Kind of access: read, write, atomic.
  kind,
  -- The defect.
  defect,
  -- Type of the memory that was meant, as in `target_context`.
  target,
  -- Its storage.
  storage_id,
  -- The tensor.
  tensor_id,
  -- The driver's allocation, outside any storage.
  allocation_id,
  -- Its label.
  object,
  -- Its type and shape, or size.
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
  -- Its warp.
  warp,
  -- The lanes.
  lane_mask,
  -- The innermost user line around the launch.
  line,
  -- The op around the launch.
  op
) AS
WITH fault AS (
  SELECT
    *,
    CASE WHEN tensor_id IS NOT NULL THEN 'tensor' WHEN storage_id IS NOT NULL THEN 'storage' ELSE 'outside any tensor' END AS target,
    coalesce(tensor_id, storage_id, allocation_id) AS object_id
  FROM address_fault
  WHERE defect <> 'after free'
)
SELECT
  f.kernel_id, f.function_id, f.pc, p.source_line, p.call_path, f.kind, f.defect, f.target, f.storage_id, f.tensor_id,
  f.allocation_id, c.label, c.type, element_index(f.address, t.address, t.element_bytes, t.sizes, t.strides),
  CAST(f.address AS BIGINT) - CAST(coalesce(t.address, s.address, a.address) AS BIGINT),
  f.lane_count, f.request_count, f.address, f.block, f.warp, f.lane_mask, coalesce(l.forward_line || ' (grad)', l.line), l.op
FROM fault f
JOIN launch_context l ON l.kernel_id = f.kernel_id
LEFT JOIN access_line p ON p.function_id = f.function_id AND p.pc = f.pc
LEFT JOIN target_context c ON c.target = f.target AND c.object_id = f.object_id
LEFT JOIN tensor t ON t.tensor_id = f.tensor_id
LEFT JOIN storage s ON s.storage_id = f.storage_id
LEFT JOIN device_allocation a ON a.allocation_id = f.allocation_id
