-- One Python stack: its innermost line in the user's code, and all its frames.
--
-- A frame belongs to the user unless its file lies in an installed package or in Python itself. If no frame does, the
-- innermost frame represents the stack.
CREATE VIEW python_stack (
  -- Stable hash of the stack.
  pystates_hash,
  -- The line, as file:line function.
  line,
  -- All frames, innermost first, one per line.
  stack,
  -- Frames.
  frame_count,
  -- Frames, callers first, each as file:line function.
  frames,
  -- Frames in the user's code. Null if there are none.
  user_frames
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
    count(*) AS frame_count,
    array_agg(line ORDER BY depth DESC) AS frames,
    array_agg(line ORDER BY depth DESC) FILTER (WHERE NOT is_foreign) AS user_frames
  FROM frame
  GROUP BY pystates_hash
)
SELECT
  place.pystates_hash, frame.line, array_to_string(array_reverse(place.frames), chr(10)), place.frame_count,
  place.frames, place.user_frames
FROM place
JOIN frame ON frame.pystates_hash = place.pystates_hash AND frame.depth = place.depth
