-- Kernels
-- Kernels over their launches, by their labels. The same code is one row in any launch order. If the code is not in all
-- captures, the same name is one row.
SELECT
  m.capture, m.kernel_id,
  CASE WHEN c.captures = $captures THEN hex(l.function_id) ELSE f.name END AS key,
  coalesce(n.short_kernel, f.demangled_name) AS what,
  CASE WHEN c.captures = $captures THEN '' ELSE 'other code' END AS detail,
  m.value, m.variance
FROM measured m
JOIN every.launch l ON l.capture = m.capture AND l.kernel_id = m.kernel_id
JOIN every.function f ON f.capture = l.capture AND f.function_id = l.function_id
LEFT JOIN every.kernel_name n ON n.capture = l.capture AND n.function_id = l.function_id
JOIN (
  SELECT function_id, count(DISTINCT capture) AS captures FROM every.function GROUP BY function_id
) c ON c.function_id = l.function_id
