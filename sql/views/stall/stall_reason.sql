-- One stall reason that the capture has, and what its samples are charged to. Unknown reasons are kept as they are.
CREATE VIEW stall_reason (
  -- The reason.
  reason,
  -- producer: to the load that the instruction waits for. own tensor: to the tensors of the instruction itself, whose
  -- queue is full. stores: to the pending stores. self: to the instruction, and to no tensor.
  class,
  -- Whether it is a memory stall: everything but self.
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
  FROM pc_sample
)
SELECT reason, class, class <> 'self' FROM classed
