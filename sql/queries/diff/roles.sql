-- Roles of tensors
-- Tensors by role in the model: parameters, gradients and so on. Tensors without a role are grouped by the phase that
-- created them. Rows in parentheses are unattributed.
SELECT
  m.capture, m.kernel_id,
  CASE
    WHEN m.charge <> 'tensor' THEN m.charge
    WHEN c.role IS NOT NULL THEN replace(CAST(c.role AS VARCHAR), '_', ' ')
    WHEN o.phase = 'forward' THEN 'activation'
    WHEN o.phase IS NOT NULL THEN 'created in ' || CAST(o.phase AS VARCHAR)
    ELSE 'created outside any operator'
  END AS key,
  CASE
    WHEN m.charge = 'self' THEN '(not memory)'
    WHEN m.charge = 'no producer' THEN '(no matching access)'
    WHEN m.charge = 'no tensor' THEN '(memory outside tensors)'
    WHEN m.charge <> 'tensor' THEN '(' || m.charge || ')'
    WHEN c.role IS NOT NULL THEN replace(CAST(c.role AS VARCHAR), '_', ' ')
    WHEN o.phase = 'forward' THEN 'activation'
    WHEN o.phase IS NOT NULL THEN 'created in ' || CAST(o.phase AS VARCHAR)
    ELSE 'created outside any operator'
  END AS what,
  '' AS detail,
  m.value, m.variance
FROM measured m
LEFT JOIN every.tensor_context c ON c.capture = m.capture AND c.tensor_id = m.tensor_id
LEFT JOIN every.tensor t ON t.capture = m.capture AND t.tensor_id = m.tensor_id
LEFT JOIN every.storage s ON s.capture = t.capture AND s.storage_id = t.storage_id
LEFT JOIN every.op o ON o.capture = t.capture AND o.op_id = coalesce(t.op_id, s.op_id)
