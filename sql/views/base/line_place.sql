-- Place of one line that `python_line` names: its file, its function, and its distance from the function's first line. Edits
-- elsewhere in the file leave it as it is, so `diff` compares lines by it.
CREATE VIEW line_place (
  -- The line, as file:line function.
  line,
  -- Its place. Longer than 256 bytes, its MD5: names may have 64 KiB.
  place
) AS
SELECT line, min(CASE WHEN octet_length(place) > 256 THEN md5(place) ELSE place END)
FROM (
  SELECT
    l.line,
    f.file || ' ' || f.function || ' ' || CAST(CAST(f.line AS BIGINT) - CAST(f.first_line AS BIGINT) AS VARCHAR) AS place
  FROM python_line l
  JOIN python_frame f ON f.frame_id = l.frame_id
) AS placed
GROUP BY line
