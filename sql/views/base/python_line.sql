-- One Python stack: its innermost line in the user's code.
--
-- A frame belongs to the user unless its file lies in an installed package or in Python itself. If no frame does, the
-- innermost frame represents the stack. `python_stack` has all frames, whose text may be long.
CREATE VIEW python_line (
  -- Stable hash of the stack.
  pystates_hash,
  -- The line, as file:line function.
  line,
  -- Its frame.
  frame_id
) AS
WITH origin AS (
  -- Once for a frame, and not once for each stack that it is in: texts may be long.
  SELECT
    frame_id,
    bool_or(regexp_like(original_file, '(site|dist)-packages/|/lib(64)?/python[0-9.]+/|^<')) AS is_foreign
  FROM python_frame
  GROUP BY frame_id
), place AS (
  SELECT
    s.pystates_hash,
    coalesce(min(CASE WHEN NOT o.is_foreign THEN s.depth END), min(s.depth)) AS depth
  FROM python_state s
  JOIN origin o ON o.frame_id = s.frame_id
  GROUP BY s.pystates_hash
)
SELECT p.pystates_hash, f.file || ':' || CAST(f.line AS VARCHAR) || ' ' || f.function, f.frame_id
FROM place p
JOIN python_state s ON s.pystates_hash = p.pystates_hash AND s.depth = p.depth
JOIN python_frame f ON f.frame_id = s.frame_id
