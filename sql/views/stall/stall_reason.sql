-- One stall reason of the capture, and the target of its samples. Unknown reasons are retained.
CREATE VIEW stall_reason (
  -- The reason.
  reason,
  -- producer: the load that the instruction waits for. own tensor: the tensors of the instruction itself, whose queue
  -- is full. stores: the pending stores. self: the instruction, and no tensor.
  class,
  -- True for a memory stall: every class except self.
  is_memory
) AS
WITH classed AS (
  SELECT DISTINCT
    stall_reason AS reason,
    CASE
      WHEN stall_reason IN ('long_scoreboard', 'short_scoreboard') THEN 'producer'
      WHEN stall_reason IN ('lg_throttle', 'tex_throttle', 'mio_throttle') THEN 'own tensor'
      WHEN stall_reason IN ('drain', 'membar') THEN 'stores'
      ELSE 'self'
    END AS class
  FROM launch_stall
)
SELECT reason, class, class <> 'self' FROM classed
