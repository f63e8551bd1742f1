-- Instructions
-- Instructions by function and pc if all captures have the code. The instructions of other code are aggregated under
-- the function's name.
SELECT
  m.capture, m.kernel_id,
  CASE WHEN m.pc IS NULL THEN f.name || ' without samples'
    WHEN c.captures = $captures THEN hex(m.function_id) || '+' || hex(CAST(m.pc AS BIGINT UNSIGNED)) ELSE f.name END
    AS key,
  CASE WHEN m.pc IS NULL THEN '(launches without samples)'
    WHEN c.captures = $captures THEN '+' || hex(CAST(m.pc AS BIGINT UNSIGNED)) || ' ' || coalesce(i.text, '')
    ELSE '(all instructions)' END AS what,
  f.demangled_name AS detail,
  m.value, m.variance
FROM measured m
LEFT JOIN every.function f ON f.capture = m.capture AND f.function_id = m.function_id
LEFT JOIN (
  SELECT function_id, count(DISTINCT capture) AS captures FROM every.function GROUP BY function_id
) c ON c.function_id = m.function_id
LEFT JOIN every.instruction i ON i.capture = m.capture AND i.function_id = m.function_id AND i.pc = m.pc
