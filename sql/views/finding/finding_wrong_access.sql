-- Wrong accesses of one kind at one line of a kernel, launched at one line: a result may be wrong, however fast it is.
--
-- By `wrong_access`. No samples measure it, so samples are 0. It comes before everything that is slow.
CREATE VIEW finding_wrong_access (
  -- The kind of defect.
  finding,
  subject,
  -- Sentence with the defect and its location.
  sentence,
  -- The fact in few words.
  fact,
  advice,
  -- The kernel. Null for a copy.
  kernel,
  -- The innermost user line around the launches.
  line,
  -- The op around the launches.
  op,
  tensor_id,
  -- 0.
  samples,
  -- 0.
  saving_samples,
  -- Null: no time is lost.
  time_ns,
  saving_low_ns,
  saving_high_ns,
  fix_ns,
  pays_from,
  query
) AS
WITH placed AS (
  SELECT w.*, n.kernel, n.short_kernel
  FROM wrong_access w
  LEFT JOIN launch l ON l.kernel_id = w.kernel_id
  LEFT JOIN kernel_name n ON n.function_id = l.function_id
), summed AS (
  SELECT
    defect, kernel, short_kernel, source_line, line, op, object, count(DISTINCT kernel_id) AS launches,
    first_value(fact ORDER BY count DESC, kernel_id, pc, fact) AS fact,
    first_value(call_path ORDER BY count DESC, kernel_id, pc, fact) AS call_path,
    first_value(block ORDER BY count DESC, kernel_id, pc, fact) AS block,
    first_value(warp ORDER BY count DESC, kernel_id, pc, fact) AS warp,
    first_value(lane_mask ORDER BY count DESC, kernel_id, pc, fact) AS lane_mask,
    max(tensor_id) AS tensor_id
  FROM placed
  GROUP BY defect, kernel, short_kernel, source_line, line, op, object
)
SELECT
  defect,
  coalesce(object, 'memory') || coalesce(' in ' || short_kernel, '') || coalesce(' at ' || source_line, ''),
  coalesce(short_kernel || coalesce(', launched at ' || line, '') || ': ', coalesce('At ' || line || ': ', '')) || fact
    || coalesce(', at ' || source_line, '')
    || coalesce(', in block ' || CAST(block AS VARCHAR) || ', warp ' || CAST(warp AS VARCHAR) || ', lanes 0x' || to_hex(lane_mask), '')
    || CASE WHEN launches > 1 THEN ', in ' || CAST(launches AS VARCHAR) || ' launches' ELSE '' END || '.',
  coalesce(short_kernel || coalesce(' at ' || source_line, '') || ': ', '') || fact,
  CASE defect
    WHEN 'out_of_bounds' THEN 'Mask or bound the index, or check the shape and strides that the kernel gets.'
    WHEN 'use_after_free' THEN 'Keep the memory until the last launch that uses it.'
    WHEN 'uninitialized_read' THEN 'Write it before it is read (zeros instead of empty), or do not read what was not written.'
    WHEN 'block_race' THEN 'Let one block own each element, update by atomics, or split the kernel in two.'
    WHEN 'reused_memory' THEN 'Call record_stream on the tensor for the other stream, or let the stream that frees it wait for that stream.'
    WHEN 'alignment_fault' THEN 'Align the pointer and the stride to the access, or access smaller elements.'
    WHEN 'wide_view' THEN 'Check sizes, strides and offset: as_strided is bounded by the storage, not by the tensor.'
    WHEN 'shared_race' THEN 'Put a barrier of the block (__syncthreads) between the two accesses, __syncwarp within a warp. Wait for copies (cp.async) before it.'
    WHEN 'wide_copy' THEN 'Copy no more than the memory holds: check size, rows and pitch.'
    WHEN 'stale_pointer' THEN 'Keep the tensor, not its address, until the last launch that uses it.'
    ELSE 'Copy through other memory, or in parts that do not overlap.'
  END,
  kernel, line, op, tensor_id, 0.0 AS samples, 0.0 AS saving_samples, CAST(NULL AS DOUBLE) AS time_ns,
  CAST(NULL AS DOUBLE) AS saving_low_ns, CAST(NULL AS DOUBLE) AS saving_high_ns, CAST(NULL AS DOUBLE) AS fix_ns, CAST(NULL AS DOUBLE) AS pays_from,
  'SELECT * FROM ' || defect || coalesce(' WHERE source_line = ''' || source_line || '''', '')
FROM summed
