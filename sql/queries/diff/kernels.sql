-- Kernels
-- Kernels over their launches. The same code is one row in any launch order. If the code is not in all captures, the
-- same name is one row.
SELECT
  m.capture, m.kernel_id,
  CASE WHEN c.captures = $captures THEN hex(l.function_id) ELSE f.name END AS key,
  f.demangled_name AS what,
  CASE WHEN c.captures = $captures THEN '' ELSE 'other code' END AS detail,
  m.value, m.variance
FROM measured m
JOIN every.launch l ON l.capture = m.capture AND l.kernel_id = m.kernel_id
JOIN every.function f ON f.capture = l.capture AND f.function_id = l.function_id
JOIN (
  SELECT function_id, count(DISTINCT capture) AS captures FROM every.function GROUP BY function_id
) c ON c.function_id = l.function_id
