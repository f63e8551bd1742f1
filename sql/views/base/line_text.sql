-- One Python line as views name it, with its text.
CREATE VIEW line_text (
  -- The line: file, number and function, as in `launch_context`.
  line,
  -- Its text as the program ran it, without indentation.
  text
) AS
SELECT f.file || ':' || CAST(f.line AS VARCHAR) || ' ' || f.function, min(trim(s.text))
FROM python_frame f
JOIN source_line s ON s.file = f.original_file AND s.line = f.line
WHERE s.text IS NOT NULL
GROUP BY 1
