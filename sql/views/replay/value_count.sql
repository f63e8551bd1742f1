-- Values that one instruction of one launch reads or writes in one tensor: how many are no numbers, infinite or zero, and
-- their range. From the memory of bundled launches, as in `access_value`.
CREATE VIEW value_count (
  kernel_id,
  kernel,
  line,
  function_id,
  pc,
  -- Kind of access: read, write, atomic.
  kind,
  tensor_id,
  object,
  dtype,
  -- Warp requests.
  request_count,
  -- Elements whose value is known, each time and by each lane.
  value_count,
  -- The ones that are not a number.
  nan_count,
  -- Infinite ones.
  infinite_count,
  -- Zeros.
  zero_count,
  -- The smallest finite value. Null without any.
  min_value,
  -- The largest finite value.
  max_value,
  -- Elements whose value is not known.
  unknown_count,
  -- Most frequent reason of these, as in `access_value`.
  unknown_reason
) AS
WITH reason AS (
  SELECT
    kernel_id, function_id, pc, kind, tensor_id, unknown_reason, max(dtype) AS dtype, count(*) AS request_count,
    sum(value_count) AS value_count, sum(nan_count) AS nan_count, sum(infinite_count) AS infinite_count,
    sum(zero_count) AS zero_count, min(min_value) AS min_value, max(max_value) AS max_value,
    sum(unknown_count) AS unknown_count
  FROM access_value
  GROUP BY kernel_id, function_id, pc, kind, tensor_id, unknown_reason
), summed AS (
  SELECT
    kernel_id, function_id, pc, kind, tensor_id, max(dtype) AS dtype, sum(request_count) AS request_count,
    sum(value_count) AS value_count, sum(nan_count) AS nan_count, sum(infinite_count) AS infinite_count,
    sum(zero_count) AS zero_count, min(min_value) AS min_value, max(max_value) AS max_value,
    sum(unknown_count) AS unknown_count,
    first_value(unknown_reason ORDER BY unknown_count DESC, unknown_reason) AS unknown_reason
  FROM reason
  GROUP BY kernel_id, function_id, pc, kind, tensor_id
)
SELECT
  s.kernel_id, l.kernel, line_label(l.line, l.forward_line), s.function_id, s.pc, s.kind, s.tensor_id, c.label, s.dtype,
  s.request_count, s.value_count, s.nan_count, s.infinite_count, s.zero_count, s.min_value, s.max_value, s.unknown_count,
  s.unknown_reason
FROM summed s
JOIN launch_context l ON l.kernel_id = s.kernel_id
LEFT JOIN target_context c ON c.target = 'tensor' AND c.object_id = s.tensor_id
