-- Python lines
-- Lines that launched kernels. In backward, with the line whose gradient ran. Lines match by file, function and
-- position in the function: edits elsewhere do not matter. If a capture knows no gradients, none counts.
SELECT
  m.capture, m.kernel_id,
  coalesce(p.place, l.line, '') || ' | ' || CASE WHEN g.is_known THEN coalesce(q.place, l.forward_line, '') ELSE '' END AS key,
  coalesce(l.line, '(no Python line)') AS what,
  CASE WHEN g.is_known THEN coalesce('gradient of ' || l.forward_line, '') ELSE '' END AS detail,
  m.value, m.variance
FROM measured m
JOIN every.launch_context l ON l.capture = m.capture AND l.kernel_id = m.kernel_id
LEFT JOIN every.line_place p ON p.capture = l.capture AND p.line = l.line
LEFT JOIN every.line_place q ON q.capture = l.capture AND q.line = l.forward_line
CROSS JOIN (
  SELECT count(DISTINCT capture) = $captures AS is_known FROM every.launch_context WHERE forward_line IS NOT NULL
) g
