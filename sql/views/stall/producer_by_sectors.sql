-- One producer of one stall by a rule that asks no caches: an alternative to `producer`, for comparison.
--
-- From the machine code: long_scoreboard, short_scoreboard, drain and membar are shifted to the instructions that the
-- stalled one waits for, throttles stay with the instruction whose queue is full. Several producers share a stall by
-- their sectors, if accesses cover all of them, and by their distance. `producer` asks which of them comes last.
CREATE VIEW producer_by_sectors (
  -- The function.
  function_id,
  -- The stalled instruction.
  pc,
  stall_reason,
  -- The function of the producer. It differs from the stalled one if a call lies between them.
  producer_function_id,
  -- The producer. Null without one.
  producer_pc,
  -- Null with a producer. self: the stall is the instruction's own. no producer: none was found.
  remainder,
  -- The producer's part of the stall.
  weight,
  -- Confidence: exact, refined (by registers, or because only one was executed), shared (one of several), approximate
  -- (not proved by the code), low (no candidate fits the reason), none.
  confidence,
  -- The dependency between the two, as in `producer_candidate`. self or none without a producer.
  link,
  -- Memory space that the producer accesses, as in `producer_candidate`. none: no memory. null: unknown.
  producer_space,
  -- Producers of one slot are alternatives, several slots are awaited together. Null without a producer.
  slot,
  -- Cycles of issue between the newest producer behind the same barrier and the stall, at the least. Null if unknown.
  covered_cycles,
  -- A sentence with the reason. Null without a producer.
  explanation
) AS
WITH stalled AS (
  SELECT
    s.function_id, s.pc, s.stall_reason, r.class,
    CASE r.class WHEN 'producer' THEN s.stall_reason WHEN 'stores' THEN 'stores' WHEN 'own tensor' THEN 'queue' END
      AS wait
  FROM function_sample s
  JOIN stall_reason r ON r.reason = s.stall_reason
), executed AS (
  SELECT function_id, pc, CAST(sum(sectors) AS DOUBLE) AS sectors FROM pc_tensor GROUP BY function_id, pc
), partly AS (
  -- Kernels of which some requests are not known.
  SELECT DISTINCT l.function_id
  FROM launch_observed o
  JOIN launch l ON l.kernel_id = o.kernel_id
  WHERE o.reason IN ('not recorded', 'requests left out')
), observed AS (
  SELECT DISTINCT
    m.function_id, CASE WHEN m.space = 'global_async' THEN 'global' ELSE CAST(m.space AS VARCHAR) END AS space
  FROM memory_instruction m
  LEFT JOIN function_code f ON f.function_id = m.function_id
  LEFT ANTI JOIN partly p ON p.function_id = coalesce(f.kernel_function_id, m.function_id)
), counted AS (
  -- An instruction without accesses was not executed if other instructions of its function have accesses in that
  -- memory, and no request of its kernel is missing.
  SELECT
    s.function_id, s.pc, s.stall_reason, c.producer_function_id, c.producer_pc, c.weight, c.confidence, c.link,
    c.producer_space, c.slot, c.covered_cycles, c.explanation,
    c.weight * coalesce(e.sectors, CASE WHEN o.space IS NOT NULL THEN 0.0 END) AS amount
  FROM stalled s
  JOIN producer_candidate c ON c.function_id = s.function_id AND c.pc = s.pc AND c.wait = s.wait
  LEFT JOIN executed e ON e.function_id = c.producer_function_id AND e.pc = c.producer_pc
  LEFT JOIN observed o
    ON o.function_id = c.producer_function_id AND o.space = c.producer_space AND o.space = c.producer_class
  WHERE s.class IN ('producer', 'stores')
), summed AS (
  SELECT
    *,
    count(*) OVER (PARTITION BY function_id, pc, stall_reason) AS candidates,
    count(amount) OVER (PARTITION BY function_id, pc, stall_reason) AS known,
    sum(amount) OVER (PARTITION BY function_id, pc, stall_reason) AS total
  FROM counted
), weighted AS (
  SELECT
    function_id, pc, stall_reason, producer_function_id, producer_pc, confidence, link, producer_space, slot,
    covered_cycles, explanation,
    CASE WHEN known = candidates AND total > 0 THEN amount / total ELSE weight END AS weight
  FROM summed
)
SELECT
  function_id, pc, stall_reason, producer_function_id, producer_pc, CAST(NULL AS VARCHAR) AS remainder, weight,
  CASE WHEN confidence = 'shared' AND weight > 1 - 1e-9 THEN 'refined' ELSE confidence END AS confidence,
  link, producer_space, slot, covered_cycles, explanation
FROM weighted
WHERE weight > 0
UNION ALL
SELECT
  s.function_id, s.pc, s.stall_reason, s.function_id AS producer_function_id, s.pc AS producer_pc, NULL AS remainder,
  1.0 AS weight, 'exact' AS confidence, 'itself' AS link,
  coalesce(q.producer_space, CASE WHEN i.class = 'tensor' THEN 'tensor cores' WHEN f.is_read THEN 'none' END)
    AS producer_space,
  q.slot, q.covered_cycles, q.explanation
FROM stalled s
LEFT JOIN instruction i ON i.function_id = s.function_id AND i.pc = s.pc
LEFT JOIN producer_candidate q ON q.function_id = s.function_id AND q.pc = s.pc AND q.wait = s.wait
LEFT JOIN function_code f ON f.function_id = s.function_id
WHERE s.class = 'own tensor'
UNION ALL
SELECT
  s.function_id, s.pc, s.stall_reason, NULL AS producer_function_id, NULL AS producer_pc,
  CASE s.class WHEN 'self' THEN 'self' ELSE 'no producer' END AS remainder, 1.0 AS weight,
  CASE s.class WHEN 'self' THEN 'exact' ELSE 'none' END AS confidence,
  CASE s.class WHEN 'self' THEN 'self' ELSE 'none' END AS link, NULL AS producer_space, NULL AS slot, NULL AS covered_cycles,
  NULL AS explanation
FROM stalled s
LEFT ANTI JOIN producer_candidate c ON c.function_id = s.function_id AND c.pc = s.pc AND c.wait = s.wait
WHERE s.class <> 'own tensor'
