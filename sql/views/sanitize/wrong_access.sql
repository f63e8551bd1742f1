-- Wrong accesses of one kind, by one instruction (or two) of one launch, to one piece of memory, with an example.
--
-- defect: out_of_bounds, use_after_free, uninitialized_read, block_race, shared_race, overlapping_copy, wide_copy,
-- reused_memory, stale_pointer, wide_view, alignment_fault. Each has a view of its name, with its rule and more columns. What could be decided: `wrong_access_coverage`.
CREATE VIEW wrong_access (
  -- The kind of defect.
  defect,
  -- The launch. Null for a copy.
  kernel_id,
  function_id,
  -- The instruction. Of a race, the one that writes.
  pc,
  source_line,
  call_path,
  -- The line of the other access of a race.
  other_source_line,
  storage_id,
  tensor_id,
  -- The driver's allocation, outside any storage.
  allocation_id,
  -- Label of the memory.
  object,
  type,
  -- The element of the example, by the tensor's strides.
  element,
  -- Bytes from the start of the memory to it.
  byte_offset,
  -- Wrong accesses: lanes out of bounds or after free, else bytes.
  count,
  -- Block of the example.
  block,
  -- Warp of the example.
  warp,
  -- Lanes of the example.
  lane_mask,
  line,
  op,
  -- The defect in words.
  fact
) AS
SELECT
  'out_of_bounds' AS defect, kernel_id, function_id, pc, source_line, call_path, CAST(NULL AS VARCHAR) AS other_source_line, storage_id,
  tensor_id, allocation_id, object, type, element, byte_offset, CAST(lane_count AS BIGINT) AS count, block, warp, lane_mask,
  line, op,
  CAST(lane_count AS VARCHAR) || ' ' || kind || CASE WHEN lane_count = 1 THEN '' ELSE 's' END || ' ' || defect || ', the lowest at '
    || coalesce('element ' || element, 'byte ' || CAST(byte_offset AS VARCHAR)) || ' of ' || coalesce(object, 'unknown memory')
    || coalesce(' (' || type || ')', '') AS fact
FROM out_of_bounds
UNION ALL
SELECT
  'use_after_free', kernel_id, function_id, pc, source_line, call_path, NULL, storage_id, tensor_id, allocation_id, object, type,
  element, byte_offset, CAST(lane_count AS BIGINT), block, warp, lane_mask, line, op,
  CAST(lane_count AS VARCHAR) || ' ' || kind || CASE WHEN lane_count = 1 THEN '' ELSE 's' END || ' of ' || coalesce(object, 'unknown memory')
    || coalesce(' (' || type || ')', '') || ' after it was freed' || coalesce(', allocated at ' || born_at, '')
FROM use_after_free
UNION ALL
SELECT
  'uninitialized_read', kernel_id, function_id, pc, source_line, call_path, NULL, storage_id, tensor_id, allocation_id, object, type,
  element, byte_offset, CAST(byte_count AS BIGINT), block, warp, lane_mask, line, op,
  CAST(byte_count AS VARCHAR) || ' bytes read that nothing wrote, the lowest at '
    || coalesce('element ' || element, 'byte ' || CAST(byte_offset AS VARCHAR)) || ' of ' || coalesce(object, 'unknown memory')
    || coalesce(' (' || type || ')', '') || coalesce(', allocated at ' || born_at, '')
FROM uninitialized_read
-- Memory of a storage outside of its tensors is the library's own, or out of bounds.
WHERE is_certain AND (tensor_id IS NOT NULL OR storage_id IS NULL)
UNION ALL
SELECT
  'block_race', kernel_id, function_id, pc, source_line, call_path, other_source_line, storage_id, tensor_id, allocation_id, object,
  type, element, byte_offset, CAST(byte_count AS BIGINT), block, warp, lane_mask, line, op,
  'blocks ' || CAST(block AS VARCHAR) || ' (write) and ' || CAST(other_block AS VARCHAR) || ' (' || other_kind
    || coalesce(' at ' || other_source_line, '') || ') access ' || CAST(byte_count AS VARCHAR) || ' common bytes of '
    || coalesce(object, 'unknown memory') || coalesce(' (' || type || ')', '') || ', such as '
    || coalesce('element ' || element, 'byte ' || CAST(byte_offset AS VARCHAR)) || ', in no order'
FROM block_race
UNION ALL
SELECT
  'shared_race', kernel_id, function_id, pc, source_line, call_path, other_source_line, NULL, NULL, NULL, 'shared memory', NULL, NULL,
  CAST(byte_offset AS BIGINT), CAST(byte_count AS BIGINT), block, warp, lane_mask, line, op,
  CASE WHEN warp = other_warp THEN 'lanes of warp ' || CAST(warp AS VARCHAR) || ' (' || kind || ') and others of it ('
    ELSE 'warps ' || CAST(warp AS VARCHAR) || ' (' || kind || ') and ' || CAST(other_warp AS VARCHAR) || ' (' END || other_kind
    || coalesce(' at ' || other_source_line, '') || ') of a block access ' || CAST(byte_count AS VARCHAR)
    || ' common bytes of shared memory with no ' || CASE WHEN warp = other_warp THEN '__syncwarp' ELSE 'barrier' END || ' between'
FROM (
  -- One row for the pairs of instructions that an unrolled loop has of two lines.
  SELECT
    kernel_id, function_id, source_line, call_path, other_source_line, line, op, min(pc) AS pc, sum(byte_count) AS byte_count,
    first_value(kind ORDER BY pc, other_pc) AS kind, first_value(other_kind ORDER BY pc, other_pc) AS other_kind,
    first_value(byte_offset ORDER BY pc, other_pc) AS byte_offset, first_value(block ORDER BY pc, other_pc) AS block,
    first_value(warp ORDER BY pc, other_pc) AS warp, first_value(other_warp ORDER BY pc, other_pc) AS other_warp,
    first_value(lane_mask ORDER BY pc, other_pc) AS lane_mask
  FROM shared_race
  GROUP BY kernel_id, function_id, source_line, call_path, other_source_line, line, op, warp = other_warp,
    CASE WHEN source_line IS NULL THEN pc END, CASE WHEN other_source_line IS NULL THEN other_pc END
)
UNION ALL
SELECT
  'overlapping_copy', NULL, NULL, NULL, NULL, NULL, NULL, storage_id, NULL, allocation_id, object, type, NULL, byte_offset,
  CAST(overlap_bytes AS BIGINT), NULL, NULL, NULL, line, op,
  'a copy of ' || CAST(size_bytes AS VARCHAR) || ' bytes overlaps its source by ' || CAST(overlap_bytes AS VARCHAR) || ' in '
    || coalesce(object, 'unknown memory')
FROM overlapping_copy
UNION ALL
SELECT
  'wide_copy', NULL, NULL, NULL, NULL, NULL, NULL, storage_id, NULL, allocation_id, object, type, NULL, byte_offset,
  byte_count, NULL, NULL, NULL, line, op,
  'a copy reaches ' || CAST(byte_count AS VARCHAR) || ' bytes past the end of its ' || copy_end || ', '
    || coalesce(object, 'unknown memory') || coalesce(' (' || type || ')', '')
FROM wide_copy
UNION ALL
SELECT
  'reused_memory', kernel_id, NULL, NULL, NULL, NULL, NULL, storage_id, NULL, NULL, object, type, NULL, byte_offset, byte_count,
  NULL, NULL, NULL, line, op,
  'ran on stream ' || CAST(stream_id AS VARCHAR) || ' with ' || coalesce(object, 'memory') || coalesce(' (' || type || ')', '')
    || coalesce(', allocated at ' || born_at, '') || ', while launch ' || CAST(other_kernel_id AS VARCHAR) || coalesce(' at ' || other_line, '')
    || ' on stream ' || CAST(other_stream_id AS VARCHAR) || ' had its memory as ' || coalesce(other_object, 'other memory')
    || coalesce(' (' || other_type || ')', '') || coalesce(', allocated at ' || other_born_at, '')
FROM reused_memory
UNION ALL
SELECT
  'stale_pointer', kernel_id, function_id, pc, source_line, NULL, NULL, storage_id, tensor_id, NULL, object, type, NULL, 0, 1, NULL, NULL,
  NULL, line, op,
  'given a pointer to ' || coalesce(object, 'memory') || coalesce(' (' || type || ')', '') || coalesce(', allocated at ' || born_at, '')
    || ' and freed, whose memory is now ' || coalesce(other_object, 'other memory') || coalesce(' (' || other_type || ')', '')
    || coalesce(', allocated at ' || other_born_at, '')
FROM stale_pointer
UNION ALL
SELECT
  'wide_view', NULL, NULL, NULL, NULL, NULL, NULL, storage_id, base_tensor_id, NULL, object, type, element, byte_offset, byte_count,
  NULL, NULL, NULL, line, op,
  'a view (' || view_type || ') reaches ' || CAST(byte_count AS VARCHAR) || ' bytes outside of ' || coalesce(object, 'its tensor')
    || coalesce(' (' || type || ')', '') || ', to element ' || element
FROM wide_view
UNION ALL
SELECT
  'alignment_fault', kernel_id, function_id, pc, source_line, call_path, NULL, storage_id, tensor_id, allocation_id, object, type,
  element, byte_offset, CAST(lane_count AS BIGINT), block, warp, lane_mask, line, op,
  CAST(lane_count AS VARCHAR) || ' ' || kind || CASE WHEN lane_count = 1 THEN '' ELSE 's' END
    || coalesce(' of ' || CAST(access_bytes AS VARCHAR) || ' bytes', '') || ' at addresses that are not a multiple, the lowest at '
    || coalesce('element ' || element, 'byte ' || CAST(byte_offset AS VARCHAR), 'a byte') || ' of ' || coalesce(object, 'unknown memory')
    || coalesce(' (' || type || ')', '')
FROM alignment_fault
