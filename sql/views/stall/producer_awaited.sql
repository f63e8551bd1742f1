-- One producer of one stall, as the code of the stalled warp shows it: signals of other warps are not followed. `producer`
-- follows them.
--
-- From the machine code: long_scoreboard, short_scoreboard, drain and membar are shifted to the instructions that the
-- stalled one waits for, throttles stay with the instruction whose queue is full. Producers that are awaited together
-- share a stall by the time for which each is the last one on its way: see `producer_latency`. Alternatives share it by
-- their sectors, if accesses cover all of them, and by their distance, as do producers of unknown latency: see
-- `producer_by_sectors`. Of several signals of other warps those count before which a warp was sampled. A stall without
-- a candidate is `no producer`. The rule that needs no code is `producer_nearest`.
CREATE VIEW producer_awaited (
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
  -- The dependency between the two, as in `producer_candidate`. self or none without a producer.
  link,
  -- Memory space that the producer accesses, as in `producer_candidate`. none: no memory. null: unknown.
  producer_space,
  -- A sentence with the reason. Null without a producer.
  explanation
) AS
WITH signalling AS (
  -- Signals before which a warp was sampled.
  SELECT DISTINCT w.function_id, w.pc
  FROM signal_work w
  JOIN function_sample f ON f.function_id = w.work_function_id AND f.pc = w.work_pc
), weighed AS (
  SELECT
    s.function_id, s.pc, s.stall_reason, s.producer_function_id, s.producer_pc, s.remainder,
    coalesce(l.weight, s.weight) AS weight,
    CASE WHEN l.weight IS NULL OR s.confidence = 'approximate' THEN s.confidence ELSE 'latency' END AS confidence, s.link,
    s.producer_space, s.explanation, coalesce(s.producer_space, '') = 'signal' AS is_signal, g.pc IS NOT NULL AS is_sampled
  FROM producer_by_sectors s
  LEFT JOIN producer_latency l
    ON l.function_id = s.function_id AND l.pc = s.pc AND l.stall_reason = s.stall_reason
    AND l.producer_function_id = s.producer_function_id AND l.producer_pc = s.producer_pc AND l.slot = s.slot
  LEFT JOIN signalling g ON g.function_id = s.producer_function_id AND g.pc = s.producer_pc
), signalled AS (
  SELECT
    *,
    sum(CASE WHEN is_signal THEN weight ELSE 0.0 END) OVER stall AS whole,
    sum(CASE WHEN is_signal AND is_sampled THEN weight ELSE 0.0 END) OVER stall AS sampled
  FROM weighed
  WINDOW stall AS (PARTITION BY function_id, pc, stall_reason)
)
SELECT
  function_id, pc, stall_reason, producer_function_id, producer_pc, remainder,
  weight * CASE WHEN is_signal AND sampled > 0.0 THEN whole / sampled ELSE 1.0 END, confidence, link, producer_space,
  explanation
FROM signalled
WHERE NOT is_signal OR is_sampled OR sampled = 0.0
