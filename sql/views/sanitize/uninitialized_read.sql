-- Reads of one instruction of one launch of bytes that nothing wrote since their memory was allocated.
--
-- Exact to the byte. Writes are those of launches, copies and fills. Only where no launch since the allocation may have
-- written what the capture does not show: each of their requests, and of this one's, is a row (`launch_observed`). A default
-- recording keeps the rows of all blocks of small launches only. `wrong_access_coverage` counts the reads for which that is not
-- known. Managed memory, memory of the host, and variables of modules do not count.
CREATE VIEW uninitialized_read (
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
  -- Kind of access: read, atomic.
  kind,
  -- Type of the memory, as in `target_context`.
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
  -- Index of the lowest such element, by the tensor's strides. Null without a tensor.
  element,
  -- Bytes from the start of the memory to the lowest such byte.
  byte_offset,
  -- The line that allocated it.
  born_at,
  -- Such bytes, in each request.
  byte_count,
  -- Warp requests with such bytes.
  request_count,
  -- The lowest such byte.
  address,
  -- The block that reads it.
  block,
  -- Its warp.
  warp,
  -- The request's lanes.
  lane_mask,
  -- The innermost user line around the launch.
  line,
  -- The op around the launch.
  op,
  -- True if the capture has every write since the allocation. The rows are findings only then.
  is_certain
) AS
WITH unwritten AS (
  SELECT
    *,
    CASE WHEN tensor_id IS NOT NULL THEN 'tensor' WHEN storage_id IS NOT NULL THEN 'storage' ELSE 'outside any tensor' END AS target,
    coalesce(tensor_id, storage_id, allocation_id) AS object_id
  FROM unwritten_read
), listed AS (
  SELECT run_id, bool_and(is_listed) AS is_listed FROM unobserved_before GROUP BY run_id
), spread AS (
  -- Copies and fills in several dimensions: which bytes they wrote is not recorded.
  SELECT DISTINCT run_id FROM loss WHERE kind = 'memory' AND reason LIKE 'gaps of a%'
)
SELECT
  u.kernel_id, u.function_id, u.pc, p.source_line, p.call_path, u.kind, u.target, u.storage_id, u.tensor_id, u.allocation_id,
  c.label, c.type, element_index(u.address, t.address, t.element_bytes, t.sizes, t.strides),
  CAST(u.address AS BIGINT) - CAST(coalesce(t.address, s.address, a.address) AS BIGINT), c.born_at,
  u.byte_count, u.request_count, u.address, u.block, u.warp, u.lane_mask, coalesce(l.forward_line || ' (grad)', l.line), l.op,
  coalesce(i.is_listed AND l.graph_id IS NULL AND x.run_id IS NULL AND o.is_whole AND o.has_every_row AND e.partial_count = b.partial_count,
    false)
FROM unwritten u
JOIN launch_context l ON l.kernel_id = u.kernel_id
JOIN launch_observed o ON o.kernel_id = u.kernel_id
LEFT JOIN storage s ON s.storage_id = u.storage_id
LEFT JOIN device_allocation a ON a.allocation_id = u.allocation_id
LEFT JOIN unobserved_before b ON b.run_id = l.run_id AND b.ordinal = coalesce(s.alloc_ordinal, a.alloc_ordinal)
LEFT JOIN unobserved_before e ON e.run_id = l.run_id AND e.ordinal = l.ordinal
LEFT JOIN listed i ON i.run_id = l.run_id
LEFT JOIN spread x ON x.run_id = l.run_id
LEFT JOIN access_line p ON p.function_id = u.function_id AND p.pc = u.pc
LEFT JOIN target_context c ON c.target = u.target AND c.object_id = u.object_id
LEFT JOIN tensor t ON t.tensor_id = u.tensor_id
