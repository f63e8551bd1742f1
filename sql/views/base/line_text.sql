-- One line of Python or of a native stack as views name it, with its text.
CREATE VIEW line_text (
  -- The line: file, number and function, as in `launch_context`.
  line,
  -- Its text as the program ran it, without indentation.
  text
) AS
WITH frame AS (
  SELECT file || ':' || CAST(line AS VARCHAR) || ' ' || function AS text, original_file AS file, line FROM python_frame
  UNION ALL
  SELECT regexp_replace(file, '^.*/', '') || ':' || CAST(line AS VARCHAR) || ' ' || function, file, line FROM native_frame
)
SELECT f.text, min(trim(s.text))
FROM frame f
JOIN source_line s ON s.file = f.file AND s.line = f.line
WHERE s.text IS NOT NULL AND f.text IS NOT NULL
GROUP BY f.text
