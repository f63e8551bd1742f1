-- Reads of one instruction of one launch of bytes that nothing wrote since their memory was allocated.
--
-- Exact to the byte. Writes are those of launches, copies and fills. Only where no launch since the allocation may have
-- written what the capture does not show: each of their requests, and of this one's, is a row (`launch_observed`). A default
-- recording keeps the rows of all blocks of small launches only. `wrong_access_coverage` counts the reads for which that is not
-- known. Managed memory, memory of the host, and variables of modules do not count.
CREATE VIEW uninitialized_read (
  kernel_id,
  function_id,
  pc,
  source_line,
  call_path,
  -- Kind of access: read, atomic.
  kind,
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
  -- Bytes from the start of the memory to the lowest such byte.
  byte_offset,
  born_at,
  -- Such bytes, in each request.
  byte_count,
  -- Warp requests with such bytes.
  request_count,
  -- The lowest such byte.
  address,
  -- The block that reads it.
  block,
  warp,
  -- The request's lanes.
  lane_mask,
  line,
  op,
  -- True if the capture has every write since the allocation. The rows are findings only then.
  is_certain
) AS
WITH listed AS (
  SELECT run_id, bool_and(is_listed) AS is_listed FROM unobserved_before GROUP BY run_id
), spread AS (
  -- Copies and fills in several dimensions: which bytes they wrote is not recorded.
  SELECT DISTINCT run_id FROM loss WHERE kind = 'memory' AND reason LIKE 'gaps of a%'
), alone AS (
  -- Another process may have written memory of the driver that it shares.
  SELECT count(DISTINCT run_id) = 1 AS is_alone FROM launch
)
SELECT
  u.kernel_id, u.function_id, u.pc, u.source_line, u.call_path, u.kind, u.target, u.storage_id, u.tensor_id, u.allocation_id,
  u.object, u.type, u.element, u.byte_offset, u.born_at, u.byte_count, u.request_count, u.address, u.block, u.warp, u.lane_mask,
  u.line, u.op,
  -- Pages that the program maps may have a second address, by which they were written. Older captures do not say which are
  -- mapped: those of whole pages may be.
  coalesce(i.is_listed AND l.graph_id IS NULL AND x.run_id IS NULL AND o.is_whole AND o.has_every_row AND e.partial_count = b.partial_count
    AND (u.allocation_id IS NULL OR k.is_alone AND NOT coalesce(a.is_mapped, a.address % 2097152 = 0 AND a.size_bytes % 2097152 = 0)), false)
FROM fault_context u
JOIN launch l ON l.kernel_id = u.kernel_id
JOIN launch_observed o ON o.kernel_id = u.kernel_id
CROSS JOIN alone k
LEFT JOIN device_allocation a ON a.allocation_id = u.allocation_id
LEFT JOIN unobserved_before b ON b.run_id = l.run_id AND b.ordinal = u.alloc_ordinal
LEFT JOIN unobserved_before e ON e.run_id = l.run_id AND e.ordinal = l.ordinal
LEFT JOIN listed i ON i.run_id = l.run_id
LEFT JOIN spread x ON x.run_id = l.run_id
WHERE u.source = 'unwritten_read'
