-- Cause of one signal: an instruction that warps waited for before they arrived at an mbarrier.
--
-- From the samples of the work before the signal, `signal_work`: their stalls with the producers of `producer_awaited`.
-- The share is of the time in which the signalling warps did not wait for signals themselves: two kinds of warps that
-- signal each other wait for what one of them does. Work that is no wait for memory has one row without a producer.
CREATE VIEW signal_cause (
  -- The function.
  function_id,
  -- The instruction by which warps arrive at the mbarrier.
  pc,
  -- The function of the producer.
  producer_function_id,
  -- The instruction that they waited for. Null for all other work.
  producer_pc,
  -- Memory space that it accesses, as in `producer_candidate`.
  producer_space,
  -- Its part of the work before the signal. The parts of a signal add up to 1.
  share,
  -- A sentence with the reason of their wait. Null for all other work.
  explanation
) AS
WITH signal AS (
  SELECT DISTINCT producer_function_id AS function_id, producer_pc AS pc
  FROM producer_awaited
  WHERE producer_space = 'signal'
), sampled AS (
  SELECT w.function_id, w.pc, w.work_function_id, w.work_pc, s.stall_reason, CAST(sum(s.samples) AS DOUBLE) AS samples
  FROM signal g
  JOIN signal_work w ON w.function_id = g.function_id AND w.pc = g.pc
  JOIN function_sample s ON s.function_id = w.work_function_id AND s.pc = w.work_pc
  GROUP BY w.function_id, w.pc, w.work_function_id, w.work_pc, s.stall_reason
), caused AS (
  SELECT
    s.function_id, s.pc, s.samples * p.weight AS samples,
    r.is_memory AND p.producer_pc IS NOT NULL AND coalesce(p.producer_space, 'none') <> 'none' AS is_memory,
    p.producer_function_id, p.producer_pc, p.producer_space, p.explanation
  FROM sampled s
  JOIN stall_reason r ON r.reason = s.stall_reason
  JOIN producer_awaited p
    ON p.function_id = s.work_function_id AND p.pc = s.work_pc AND p.stall_reason = s.stall_reason
  WHERE coalesce(p.producer_space, '') NOT IN ('signal', 'mbarrier')
), summed AS (
  SELECT
    function_id, pc,
    CASE WHEN is_memory THEN producer_function_id END AS producer_function_id,
    CASE WHEN is_memory THEN producer_pc END AS producer_pc,
    CASE WHEN is_memory THEN producer_space END AS producer_space,
    sum(samples) AS samples,
    min(CASE WHEN is_memory THEN explanation END) AS explanation
  FROM caused
  GROUP BY function_id, pc, CASE WHEN is_memory THEN producer_function_id END, CASE WHEN is_memory THEN producer_pc END,
    CASE WHEN is_memory THEN producer_space END
)
SELECT
  function_id, pc, producer_function_id, producer_pc, producer_space,
  samples / sum(samples) OVER (PARTITION BY function_id, pc), explanation
FROM summed
