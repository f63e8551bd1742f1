-- Python lines
-- Lines that launched kernels. In backward, with the line whose gradient ran. Lines match by file, function and
-- position in the function: edits elsewhere do not matter.
WITH place AS (
  -- Long places are compared by their hash: names may have 64 KiB.
  SELECT capture, line, min(CASE WHEN octet_length(place) > 256 THEN md5(place) ELSE place END) AS place
  FROM (
    SELECT
      l.capture, l.line,
      f.file || ' ' || f.function || ' ' || CAST(CAST(f.line AS BIGINT) - CAST(f.first_line AS BIGINT) AS VARCHAR)
        AS place
    FROM every.python_line l
    JOIN every.python_frame f ON f.capture = l.capture AND f.frame_id = l.frame_id
  )
  GROUP BY 1, 2
)
SELECT
  m.capture, m.kernel_id,
  coalesce(p.place, l.line, '') || ' | ' || coalesce(q.place, l.forward_line, '') AS key,
  coalesce(l.line, '(no Python line)') AS what,
  coalesce('gradient of ' || l.forward_line, '') AS detail,
  m.value, m.variance
FROM measured m
JOIN every.launch_context l ON l.capture = m.capture AND l.kernel_id = m.kernel_id
LEFT JOIN place p ON p.capture = l.capture AND p.line = l.line
LEFT JOIN place q ON q.capture = l.capture AND q.line = l.forward_line
