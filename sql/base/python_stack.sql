-- One Python stack: its innermost line in the user's own code, and the whole.
--
-- A frame is the user's own unless its file lies in an installed package or in Python itself; where no frame is,
-- the innermost one stands for the stack.
CREATE VIEW python_stack (
  -- Stable hash of the stack.
  pystates_hash,
  -- The line, as file:line function.
  line,
  -- The whole stack, innermost frame first, one frame a line.
  stack,
  -- Frames.
  frame_count
) AS
WITH frame AS (
  SELECT
    s.pystates_hash,
    s.depth,
    f.file || ':' || CAST(f.line AS VARCHAR) || ' ' || f.function AS line,
    regexp_like(f.original_file, '(site|dist)-packages/|/lib(64)?/python[0-9.]+/|^<') AS is_foreign
  FROM python_state s
  JOIN python_frame f ON f.frame_id = s.frame_id
), place AS (
  SELECT
    pystates_hash,
    coalesce(min(CASE WHEN NOT is_foreign THEN depth END), min(depth)) AS depth,
    string_agg(line, chr(10) ORDER BY depth) AS stack,
    count(*) AS frame_count
  FROM frame
  GROUP BY pystates_hash
)
SELECT place.pystates_hash, frame.line, place.stack, place.frame_count
FROM place
JOIN frame ON frame.pystates_hash = place.pystates_hash AND frame.depth = place.depth
