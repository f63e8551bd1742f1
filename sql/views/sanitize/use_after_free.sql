-- Accesses of one instruction of one launch to memory that was freed before the launch.
--
-- The memory is freed by the driver, or by the framework's allocator and not allocated again. A pointer among the
-- launch's parameters leads to it. Memory that the allocator has handed to another tensor is that tensor's: an access
-- through an old pointer is not found.
CREATE VIEW use_after_free (
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
  -- Type of the memory, as in `target_context`: storage, outside any tensor (an allocation of the driver).
  target,
  -- The freed storage.
  storage_id,
  -- The newest tensor in it.
  tensor_id,
  -- The freed allocation.
  allocation_id,
  -- Its label.
  object,
  -- Its type and shape, or size.
  type,
  -- Index of the lowest element, by the tensor's strides. Null without a tensor.
  element,
  -- Bytes from the start of the memory to the lowest byte.
  byte_offset,
  -- The line that allocated it.
  born_at,
  -- Ordinal of the first launch after the free.
  free_ordinal,
  -- Launches between the free and this launch.
  launches_since,
  -- Accesses, by lanes.
  lane_count,
  -- Warp requests.
  request_count,
  -- The lowest byte.
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
  SELECT * FROM address_fault WHERE defect = 'after free'
), newest AS (
  SELECT t.storage_id, max(t.tensor_id) AS tensor_id
  FROM tensor t
  JOIN (SELECT DISTINCT storage_id FROM fault) f ON f.storage_id = t.storage_id
  GROUP BY t.storage_id
), freed AS (
  SELECT
    f.* EXCEPT (tensor_id), n.tensor_id,
    CASE WHEN n.tensor_id IS NOT NULL THEN 'tensor' WHEN f.storage_id IS NOT NULL THEN 'storage' ELSE 'outside any tensor' END AS target,
    coalesce(n.tensor_id, f.storage_id, f.allocation_id) AS object_id
  FROM fault f
  LEFT JOIN newest n ON n.storage_id = f.storage_id
)
SELECT
  f.kernel_id, f.function_id, f.pc, p.source_line, p.call_path, f.kind, f.target, f.storage_id, f.tensor_id, f.allocation_id,
  c.label, c.type, element_index(f.address, t.address, t.element_bytes, t.sizes, t.strides),
  CAST(f.address AS BIGINT) - CAST(coalesce(s.address, a.address) AS BIGINT), c.born_at,
  coalesce(s.free_ordinal, a.free_ordinal),
  CAST(l.ordinal AS BIGINT) - CAST(coalesce(s.free_ordinal, a.free_ordinal) AS BIGINT),
  f.lane_count, f.request_count, f.address, f.block, f.warp, f.lane_mask, coalesce(l.forward_line || ' (grad)', l.line), l.op
FROM freed f
JOIN launch_context l ON l.kernel_id = f.kernel_id
LEFT JOIN access_line p ON p.function_id = f.function_id AND p.pc = f.pc
LEFT JOIN target_context c ON c.target = f.target AND c.object_id = f.object_id
LEFT JOIN tensor t ON t.tensor_id = f.tensor_id
LEFT JOIN storage s ON s.storage_id = f.storage_id
LEFT JOIN device_allocation a ON a.allocation_id = f.allocation_id
