-- Operators
-- Operators by name and phase of the step, over all launches inside them.
SELECT
  m.capture, m.kernel_id,
  coalesce(l.op, '') || ' ' || coalesce(CAST(l.phase AS VARCHAR), '') AS key,
  coalesce(l.op, '(outside any operator)') AS what,
  coalesce(CAST(l.phase AS VARCHAR), '') AS detail,
  m.value, m.variance
FROM measured m
JOIN every.launch_context l ON l.capture = m.capture AND l.kernel_id = m.kernel_id
