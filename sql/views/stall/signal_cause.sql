-- Cause of one signal: what warps did before they arrived at an mbarrier, and before those that they waited for arrived.
--
-- From `signal_step`, followed from signal to signal until it ends: at a producer of memory, at work, or at a signal
-- before which no warp was sampled. Warps that wait for each other's signals wait for what either does: the time that comes
-- back to where it began is shared like the rest. A signal whose time never ends has no rows.
CREATE VIEW signal_cause (
  -- The function.
  function_id,
  -- The instruction by which warps arrive at the mbarrier.
  pc,
  -- The function of the producer. Null for work.
  producer_function_id,
  -- The instruction that they waited for. Null for work.
  producer_pc,
  -- Memory space that it accesses, as in `producer_candidate`. For work, as in `producer`.
  producer_space,
  -- Its part of the time before the signal. The parts of a signal add up to 1.
  share,
  -- A sentence with the reason of their wait. Null for work.
  explanation
) AS
WITH RECURSIVE reached AS (
  SELECT
    function_id, pc, function_id AS at_function_id, pc AS at_pc, CAST(1.0 AS DOUBLE) AS share, 0 AS step
  FROM (SELECT DISTINCT function_id, pc FROM signal_step)
  UNION ALL
  -- After so many signals little is left, and parts below a thousandth are left out.
  SELECT r.function_id, r.pc, s.cause_function_id, s.cause_pc, sum(r.share * s.share), min(r.step) + 1
  FROM reached r
  JOIN signal_step s ON s.function_id = r.at_function_id AND s.pc = r.at_pc
  WHERE s.is_signal AND r.share > 0.001 AND r.step < 24
  GROUP BY r.function_id, r.pc, s.cause_function_id, s.cause_pc
), visited AS (
  SELECT function_id, pc, at_function_id, at_pc, sum(share) AS share
  FROM reached
  GROUP BY function_id, pc, at_function_id, at_pc
), ended AS (
  SELECT
    v.function_id, v.pc,
    CASE WHEN s.pc IS NULL THEN v.at_function_id ELSE s.cause_function_id END AS cause_function_id,
    CASE WHEN s.pc IS NULL THEN v.at_pc ELSE s.cause_pc END AS cause_pc,
    coalesce(s.cause_space, 'signal') AS cause_space,
    v.share * coalesce(s.share, 1.0) AS share,
    s.explanation
  FROM visited v
  LEFT JOIN signal_step s ON s.function_id = v.at_function_id AND s.pc = v.at_pc
  WHERE NOT coalesce(s.is_signal, false)
), summed AS (
  SELECT
    function_id, pc, cause_function_id, cause_pc, cause_space, sum(share) AS share, min(explanation) AS explanation
  FROM ended
  GROUP BY function_id, pc, cause_function_id, cause_pc, cause_space
)
SELECT
  function_id, pc, cause_function_id, cause_pc, cause_space,
  share / sum(share) OVER (PARTITION BY function_id, pc), explanation
FROM summed
