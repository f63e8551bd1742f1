-- One Python stack: its innermost line in the user's code, and all its frames.
--
-- `python_line` decides which line is the user's.
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
    regexp_like(f.original_file, '(site|dist)-packages/|/lib(64)?/python[0-9.]+/|/[a-z2-7]{2}/c[a-z2-7]{51}[.](py|cpp)$|^<') AS is_foreign
  FROM python_state s
  JOIN python_frame f ON f.frame_id = s.frame_id
), listed AS (
  SELECT
    pystates_hash,
    count(*) AS frame_count,
    array_agg(line ORDER BY depth DESC) AS frames,
    array_agg(line ORDER BY depth DESC) FILTER (WHERE NOT is_foreign) AS user_frames
  FROM frame
  GROUP BY pystates_hash
)
SELECT
  s.pystates_hash, l.line, array_to_string(array_reverse(s.frames), chr(10)), s.frame_count, s.frames, s.user_frames
FROM listed s
JOIN python_line l ON l.pystates_hash = s.pystates_hash
