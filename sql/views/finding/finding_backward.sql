-- One forward op at one line whose gradient costs more than twice as much (costly_backward), by `forward_backward`.
--
-- Two is what the gradient of a product of matrices takes. Views that take a tensor apart cost nothing, and have
-- gradients that put it together again; what other views cost in backward are copies, as `finding_copy` says. A fix
-- saves at most what the gradient costs beyond twice the forward op.
CREATE VIEW finding_backward (
  -- The kind: a word.
  finding,
  -- What it is about.
  subject,
  -- What is inefficient, and where.
  sentence,
  -- What to change.
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
  -- Samples that a fix saves at most.
  saving_samples,
  -- Estimated time that `samples` stand for, nanoseconds; see `cost_time`.
  estimated_ns,
  -- SQL that shows its evidence.
  query
) AS
SELECT
  'costly_backward',
  op || coalesce(' at ' || line, ''),
  'The gradient of ' || op || coalesce(' at ' || line, '') || CASE
    WHEN forward_samples = 0 THEN ' costs time, though the op itself takes none: it puts the tensor together again.'
    ELSE ' costs ' || CAST(CAST(ratio AS DECIMAL(9, 1)) AS VARCHAR) || ' times as much as the op itself.' END,
  CASE
    WHEN forward_samples = 0 THEN 'Do not take it apart (unbind, split, expand): let what follows use the whole, or fuse it.'
    ELSE 'Look for atomic updates, sums over large dimensions and copies in its kernels; another formulation of the op, '
      || 'or computing it again, can be cheaper.'
  END,
  CAST(NULL AS VARCHAR) AS kernel, line || ' (grad)', op, CAST(NULL AS BIGINT UNSIGNED) AS tensor_id,
  backward_samples, backward_samples - 2 * forward_samples, backward_ns,
  'SELECT kernel_id, kernel, op, phase, forward_line, samples, memory_samples FROM launch_context JOIN sample_cost USING '
    || '(kernel_id) WHERE coalesce(forward_line, '''') = ''' || replace(coalesce(line, ''), '''', '''''') || ''''
    || ' ORDER BY samples DESC'
FROM forward_backward
WHERE backward_samples > 2 * forward_samples
  AND (forward_samples > 0.0 OR regexp_like(op, '::(unbind|split|chunk|slice|select|expand|index|gather)'))
