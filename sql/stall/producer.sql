-- One producer of one stall: W(producer | function, reason, stalled pc), which sums to 1 with its remainder.
--
-- Where the capture has a table `producer_weight`, its weights are used as they are. Elsewhere by a simple rule:
-- long_scoreboard is charged to the nearest earlier load (or atomic) of the function that was observed in device or
-- local memory, short_scoreboard to the nearest earlier one in shared memory, throttles to the instruction itself where
-- it was observed to access memory, drain and membar to the nearest earlier store. Earlier means a smaller pc: loops
-- and branches are not followed.
CREATE VIEW producer (
  -- The function.
  function_id,
  -- The stalled instruction.
  pc,
  -- Why it stalled.
  stall_reason,
  -- The instruction that it waited for; null in a remainder.
  producer_pc,
  -- Null where there is a producer; self: the stall is the instruction's own; no producer: none was found.
  remainder,
  -- The producer's part of the stall.
  weight,
  -- How sure it is: exact, low, none; or what the table of weights says.
  confidence,
  -- How it was found: self, itself, nearest earlier load, nearest earlier store, none; or as the table says.
  method
) AS
WITH stalled AS (
  SELECT DISTINCT s.function_id, s.pc, s.stall_reason, r.class
  FROM pc_sample s
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
), given AS (
  SELECT function_id, pc, stall_reason, sum(weight) AS weight
  FROM producer_weight
  GROUP BY function_id, pc, stall_reason
)
SELECT
  w.function_id, w.pc, w.stall_reason, w.producer_pc, CAST(NULL AS VARCHAR), w.weight, w.confidence, w.method
FROM producer_weight w
UNION ALL
SELECT function_id, pc, stall_reason, NULL, 'no producer', 1 - weight, 'none', 'none'
FROM given
WHERE weight < 1 - 1e-9
UNION ALL
SELECT
  c.function_id, c.pc, c.stall_reason, c.producer_pc,
  CASE WHEN c.class = 'self' THEN 'self' WHEN c.producer_pc IS NULL THEN 'no producer' END,
  1.0,
  CASE WHEN c.class IN ('self', 'own tensor') AND (c.class = 'self' OR c.producer_pc IS NOT NULL) THEN 'exact'
       WHEN c.producer_pc IS NULL THEN 'none' ELSE 'low' END,
  CASE WHEN c.class = 'self' THEN 'self' WHEN c.producer_pc IS NULL THEN 'none'
       WHEN c.class = 'own tensor' THEN 'itself' WHEN c.class = 'stores' THEN 'nearest earlier store'
       ELSE 'nearest earlier load' END
FROM candidate c
LEFT ANTI JOIN given g ON g.function_id = c.function_id AND g.pc = c.pc AND g.stall_reason = c.stall_reason
