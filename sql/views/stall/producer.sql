-- One producer of one stall: W(producer | function, reason, stalled pc), which sums to 1 with its remainder.
--
-- From the machine code, as in `producer_awaited`. A wait for a signal of other warps is followed to what those warps
-- waited for before they arrived, from signal to signal: see `signal_cause`. The part of their time in which they worked
-- stays with the signal, as the work that they did.
CREATE VIEW producer (
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
  -- Confidence: exact, refined (by registers, or because only one was executed), latency (one of several awaited
  -- together, by their latencies), shared (one of several), approximate (not proved by the code), low (no candidate
  -- fits the reason), none.
  confidence,
  -- The dependency between the two, as in `producer_candidate`. signal: other warps waited for the producer before
  -- they signalled. self or none without a producer.
  link,
  -- Memory space that the producer accesses, as in `producer_candidate`. none: no memory. tensor cores, arithmetic: the
  -- work of other warps before they signalled, matrix multiplications or anything else. null: unknown.
  producer_space,
  -- A sentence with the reason. Null without a producer.
  explanation
) AS
SELECT * FROM producer_awaited WHERE coalesce(producer_space, '') <> 'signal'
UNION ALL
-- Several signals may have one cause. Work has none: it stays with its signal.
SELECT
  s.function_id, s.pc, s.stall_reason,
  coalesce(c.producer_function_id, s.producer_function_id) AS producer_function_id,
  coalesce(c.producer_pc, s.producer_pc) AS producer_pc, CAST(NULL AS VARCHAR) AS remainder,
  sum(s.weight * coalesce(c.share, 1.0)) AS weight, s.confidence,
  CASE WHEN c.producer_pc IS NULL THEN s.link ELSE 'signal' END AS link,
  coalesce(c.producer_space, s.producer_space) AS producer_space,
  min(s.explanation || coalesce('. Before it: ' || c.explanation, '')) AS explanation
FROM producer_awaited s
LEFT JOIN signal_cause c ON c.function_id = s.producer_function_id AND c.pc = s.producer_pc
WHERE s.producer_space = 'signal'
GROUP BY s.function_id, s.pc, s.stall_reason, coalesce(c.producer_function_id, s.producer_function_id),
  coalesce(c.producer_pc, s.producer_pc), s.confidence, CASE WHEN c.producer_pc IS NULL THEN s.link ELSE 'signal' END,
  coalesce(c.producer_space, s.producer_space)
