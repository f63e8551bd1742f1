-- Frames of Python stacks
-- One row per frame of a stack under which memory was allocated, innermost first.
SELECT s.pystates_hash, s.depth, f.file, f.function, f.line
FROM python_state s
JOIN python_frame f ON f.frame_id = s.frame_id
WHERE s.pystates_hash IN (
  SELECT o.pystates_hash FROM memory_object m JOIN op o ON o.op_id = m.op_id
)
ORDER BY s.pystates_hash, s.depth
