-- One row of `address_fault`, `unwritten_read` or `block_conflict`, with the names of its memory, its lines and its op.
--
-- The views of each kind of wrong access have the rules: not every row is a defect.
CREATE VIEW fault_context (
  -- The table: address_fault, unwritten_read, block_conflict.
  source,
  kernel_id,
  function_id,
  pc,
  source_line,
  call_path,
  -- Kind of access.
  kind,
  -- The defect, as in `address_fault`. Null in rows of the other tables.
  defect,
  -- Type of the memory, as in `target_context`: tensor, storage, outside any tensor (an allocation of the driver).
  target,
  -- Its storage.
  storage_id,
  -- The tensor. After free, the newest one in the storage.
  tensor_id,
  -- The driver's allocation, outside any storage.
  allocation_id,
  object,
  type,
  born_at,
  -- Index of the lowest such element, by the tensor's strides. Null without a tensor.
  element,
  -- Bytes from the start of the memory to the lowest such byte. After free, from the start of the storage.
  byte_offset,
  -- Ordinal of the first launch that can use the memory.
  alloc_ordinal,
  -- Ordinal of the first launch after its free.
  free_ordinal,
  -- Accesses, by lanes.
  lane_count,
  request_count,
  -- Bytes.
  byte_count,
  -- The lowest such byte.
  address,
  -- The block that accesses it.
  block,
  warp,
  -- The lanes.
  lane_mask,
  -- The function that holds the other instruction of a conflict.
  other_function_id,
  -- The other instruction.
  other_pc,
  -- Kind of its access.
  other_kind,
  -- The other block.
  other_block,
  -- Its warp.
  other_warp,
  -- Its lanes.
  other_lane_mask,
  line,
  op
) AS
WITH fault AS (
  SELECT
    'address_fault' AS source, kernel_id, function_id, pc, CAST(kind AS VARCHAR) AS kind, CAST(defect AS VARCHAR) AS defect,
    storage_id, tensor_id, allocation_id, lane_count, request_count, CAST(NULL AS BIGINT UNSIGNED) AS byte_count, address, block,
    warp, lane_mask, CAST(NULL AS BIGINT UNSIGNED) AS other_function_id, CAST(NULL AS INT UNSIGNED) AS other_pc,
    CAST(NULL AS VARCHAR) AS other_kind, CAST(NULL AS BIGINT UNSIGNED) AS other_block,
    CAST(NULL AS SMALLINT UNSIGNED) AS other_warp, CAST(NULL AS INT UNSIGNED) AS other_lane_mask
  FROM address_fault
  UNION ALL
  SELECT
    'unwritten_read', kernel_id, function_id, pc, CAST(kind AS VARCHAR), NULL, storage_id, tensor_id, allocation_id, NULL,
    request_count, byte_count, address, block, warp, lane_mask, NULL, NULL, NULL, NULL, NULL, NULL
  FROM unwritten_read
  UNION ALL
  SELECT
    'block_conflict', kernel_id, function_id, pc, CAST(kind AS VARCHAR), NULL, storage_id, tensor_id, allocation_id, NULL, NULL,
    byte_count, address, block, warp, lane_mask, other_function_id, other_pc, CAST(other_kind AS VARCHAR), other_block,
    other_warp, other_lane_mask
  FROM block_conflict
), newest AS (
  SELECT t.storage_id, max(t.tensor_id) AS tensor_id
  FROM tensor t
  JOIN (SELECT DISTINCT storage_id FROM fault WHERE defect = 'after free') f ON f.storage_id = t.storage_id
  GROUP BY t.storage_id
), held AS (
  SELECT
    f.* EXCEPT (tensor_id), CASE WHEN f.defect = 'after free' THEN n.tensor_id ELSE f.tensor_id END AS tensor_id
  FROM fault f
  LEFT JOIN newest n ON n.storage_id = f.storage_id
), targeted AS (
  SELECT
    *,
    CASE WHEN tensor_id IS NOT NULL THEN 'tensor' WHEN storage_id IS NOT NULL THEN 'storage' ELSE 'outside any tensor' END AS target,
    coalesce(tensor_id, storage_id, allocation_id) AS object_id
  FROM held
)
SELECT
  f.source, f.kernel_id, f.function_id, f.pc, p.source_line, p.call_path, f.kind, f.defect, f.target, f.storage_id, f.tensor_id,
  f.allocation_id, c.label, c.type, c.born_at, element_index(f.address, t.address, t.element_bytes, t.sizes, t.strides),
  TRY_CAST(f.address AS BIGINT)
    - TRY_CAST(coalesce(CASE WHEN f.defect = 'after free' THEN NULL ELSE t.address END, s.address, a.address) AS BIGINT),
  coalesce(s.alloc_ordinal, a.alloc_ordinal), coalesce(s.free_ordinal, a.free_ordinal), f.lane_count, f.request_count,
  f.byte_count, f.address, f.block, f.warp, f.lane_mask, f.other_function_id, f.other_pc, f.other_kind, f.other_block,
  f.other_warp, f.other_lane_mask, line_label(l.line, l.forward_line), l.op
FROM targeted f
JOIN launch_context l ON l.kernel_id = f.kernel_id
LEFT JOIN access_line p ON p.function_id = f.function_id AND p.pc = f.pc
LEFT JOIN target_context c ON c.target = f.target AND c.object_id = f.object_id
LEFT JOIN tensor t ON t.tensor_id = f.tensor_id
LEFT JOIN storage s ON s.storage_id = f.storage_id
LEFT JOIN device_allocation a ON a.allocation_id = f.allocation_id
