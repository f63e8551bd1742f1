-- One producer of one stall by a rule that needs no machine code: an alternative to `producer`, for comparison.
--
-- long_scoreboard is attributed to the nearest earlier load (or atomic) of the function that was observed in device or
-- local memory, short_scoreboard to the nearest earlier one in shared memory, throttles to the instruction itself if it
-- was observed to access memory, drain and membar to the nearest earlier store. Earlier means a smaller pc: loops and
-- branches are not followed.
CREATE VIEW producer_nearest (
  -- The function.
  function_id,
  -- The stalled instruction.
  pc,
  stall_reason,
  -- The assumed producer, in the same function. Null without one.
  producer_pc,
  -- Null with a producer. self: the stall is the instruction's own. no producer: none was found.
  remainder,
  -- The producer's part of the stall, always 1.
  weight,
  -- Confidence: exact, low, none.
  confidence,
  -- Method: self, itself, nearest earlier load, nearest earlier store, none.
  method
) AS
WITH stalled AS (
  SELECT s.function_id, s.pc, s.stall_reason, r.class
  FROM function_sample s
  JOIN stall_reason r ON r.reason = s.stall_reason
), candidate AS (
  SELECT
    s.function_id, s.pc, s.stall_reason, s.class,
    max(CASE
      WHEN s.class = 'own tensor' AND m.pc = s.pc THEN m.pc
      WHEN s.class = 'producer' AND m.pc < s.pc AND m.kind IN ('read', 'atomic')
        AND (s.stall_reason = 'short_scoreboard') = (m.space = 'shared') THEN m.pc
      WHEN s.class = 'stores' AND m.pc < s.pc AND m.kind IN ('write', 'atomic') THEN m.pc
    END) AS producer_pc
  FROM stalled s
  LEFT JOIN memory_instruction m ON m.function_id = s.function_id
  GROUP BY s.function_id, s.pc, s.stall_reason, s.class
)
SELECT
  function_id, pc, stall_reason, producer_pc,
  CASE WHEN class = 'self' THEN 'self' WHEN producer_pc IS NULL THEN 'no producer' END,
  1.0,
  CASE WHEN class = 'self' THEN 'exact' WHEN producer_pc IS NULL THEN 'none' WHEN class = 'own tensor' THEN 'exact'
       ELSE 'low' END,
  CASE WHEN class = 'self' THEN 'self' WHEN producer_pc IS NULL THEN 'none'
       WHEN class = 'own tensor' THEN 'itself' WHEN class = 'stores' THEN 'nearest earlier store'
       ELSE 'nearest earlier load' END
FROM candidate
