-- One forward op at one line whose gradient costs more than twice as much (costly_backward), by `forward_backward`.
--
-- Two is the ratio of a matrix product. Views that split a tensor cost nothing, but their gradients reassemble it. The
-- backward cost of other views consists of copies, as in `finding_copy`. Saving: the cost of the gradient beyond twice
-- the forward op.
--
-- Time saved: from 0 to the time beyond twice the forward op. Another formulation need not be faster. Without a split, ops on its
-- parts become one: up to twice the gradient's time.
CREATE VIEW finding_backward (
  finding,
  subject,
  sentence,
  fact,
  advice,
  -- The kernel: null.
  kernel,
  -- The line of the forward op, with (grad).
  line,
  -- The forward op.
  op,
  -- No tensor: null.
  tensor_id,
  -- Samples of the gradient.
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
  'costly_backward',
  op || coalesce(' at ' || line, ''),
  'The gradient of ' || op || coalesce(' at ' || line, '') || CASE
    WHEN ratio IS NULL THEN ' costs time, although the op itself takes none: it reassembles the tensor.'
    ELSE ' costs ' || CAST(CAST(ratio AS DECIMAL(9, 1)) AS VARCHAR) || ' times as much as the op itself.' END,
  CASE
    WHEN ratio IS NULL THEN 'gradient of ' || op || ' reassembles the tensor: the op itself takes no time'
    ELSE 'gradient of ' || op || ': ' || CAST(CAST(ratio AS DECIMAL(9, 1)) AS VARCHAR) || ' times the cost of the op'
  END,
  CASE
    WHEN ratio IS NULL THEN 'Do not split it (unbind, split, expand): let later ops use the complete tensor, or fuse them.'
    ELSE 'Look for atomic updates, sums over large dimensions and copies in its kernels. Another formulation of the op, '
      || 'or recomputation, can be cheaper.'
  END,
  CAST(NULL AS VARCHAR) AS kernel, line_label(NULL, line), op, CAST(NULL AS BIGINT UNSIGNED) AS tensor_id,
  backward_samples, backward_samples * (1.0 - coalesce(2.0 / ratio, 0.0)), backward_ns,
  0.0 AS saving_low_ns, CASE WHEN ratio IS NULL THEN 2.0 * backward_ns ELSE greatest(backward_ns - 2.0 * forward_ns, 0.0) END AS saving_high_ns,
  CAST(NULL AS DOUBLE) AS fix_ns, CAST(NULL AS DOUBLE) AS pays_from,
  'SELECT kernel_id, kernel, l.op, l.phase, forward_line, samples, memory_samples FROM launch_context l JOIN sample_cost USING '
    || '(kernel_id) JOIN op o ON o.op_id = l.op_id JOIN op f ON f.op_id = o.forward_op_id WHERE f.name = '''
    || replace(op, '''', '''''') || ''' AND coalesce(forward_line, '''') = ''' || replace(coalesce(line, ''), '''', '''''')
    || ''' ORDER BY samples DESC'
FROM forward_backward
WHERE is_suspicious OR ratio IS NULL AND backward_samples > 0.0
  AND regexp_like(op, '::(unbind|split|chunk|slice|select|expand|index|gather)')
