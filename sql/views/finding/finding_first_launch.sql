-- One kind of launch whose first one took half as long again as the later ones, or more (slow_first_launch), if the
-- difference is significant.
--
-- See `first_launch`. Saving: the time of the first one beyond the median of the later ones.
CREATE VIEW finding_first_launch (
  finding,
  subject,
  sentence,
  fact,
  advice,
  -- The kernel.
  kernel,
  -- The innermost user line around it. In backward, the line whose gradient this is, with (grad).
  line,
  -- The innermost op around it.
  op,
  -- No tensor: null.
  tensor_id,
  -- Samples of the first launch.
  samples,
  saving_samples,
  -- GPU time that `samples` represent, nanoseconds. See `launch_time`.
  time_ns,
  saving_low_ns,
  saving_high_ns,
  fix_ns,
  pays_from,
  query
) AS
SELECT
  'slow_first_launch',
  'first launch of ' || n.short_kernel,
  'The first launch of ' || n.short_kernel || ' with ' || f.shape || coalesce(' at ' || line_label(l.line, l.forward_line), '')
    || ' takes ' || CAST(CAST(f.ratio AS DECIMAL(9, 1)) AS VARCHAR) || ' times as long as '
    || CASE f.launch_count WHEN 2 THEN 'the later one' ELSE 'the later ' || CAST(f.launch_count - 1 AS VARCHAR) END
    || ': its data and its code are not in the caches.',
  n.short_kernel || ': ' || CAST(CAST(f.ratio AS DECIMAL(9, 1)) AS VARCHAR) || ' times as long as later launches',
  'Warm up before you measure. If each run begins like this, prefetch its data.',
  n.kernel, line_label(l.line, l.forward_line), l.op, CAST(NULL AS BIGINT UNSIGNED) AS tensor_id,
  f.first_samples, f.first_samples - f.later_samples, c.time_ns,
  CAST(NULL AS DOUBLE) AS saving_low_ns, CAST(NULL AS DOUBLE) AS saving_high_ns, CAST(NULL AS DOUBLE) AS fix_ns, CAST(NULL AS DOUBLE) AS pays_from,
  'SELECT kernel_id, shape, occurrence, step, samples, memory_samples, time_ns FROM launch_measure WHERE '
    || 'function_id = ' || CAST(f.function_id AS VARCHAR) || ' ORDER BY kernel_id'
FROM first_launch f
JOIN launch_context l ON l.kernel_id = f.first_kernel_id
LEFT JOIN (SELECT kernel_id, sum(time_ns) AS time_ns FROM sample_cost GROUP BY kernel_id) c
  ON c.kernel_id = f.first_kernel_id
LEFT JOIN kernel_name n ON n.function_id = f.function_id
WHERE f.verdict = 'slower' AND f.ratio >= 1.5
