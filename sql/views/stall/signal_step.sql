-- One cause of one signal: the part of the signalling warps' time that it took, by their samples. A cause is another signal,
-- which `signal_cause` follows, or an end.
--
-- From the samples of the work before the signal, `signal_work`: their memory stalls with the producers of
-- `producer_awaited`, all else as the units that the warps occupied. Waits at barriers of the block are left out: the warps of
-- a group wait there for each other. Work next to waits for device memory is hidden behind them: warps that had worked less
-- would have waited longer. Four times the wait's time is hidden: who waits for a fifth of the time or more is held up by
-- nothing else.
CREATE VIEW signal_step (
  -- The function.
  function_id,
  -- The instruction by which warps arrive at the mbarrier.
  pc,
  -- True if the cause is a signal.
  is_signal,
  -- The function of the cause. Null for work.
  cause_function_id,
  -- Its instruction: the producer that they waited for, or the signal. Null for work.
  cause_pc,
  -- Memory space that it accesses, as in `producer_candidate`. For work, as in `producer`.
  cause_space,
  -- Its part of the time before the signal. The parts of a signal add up to 1.
  share,
  -- A sentence with the reason of their wait. Null for work.
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
  WHERE s.stall_reason <> 'barrier'
  GROUP BY w.function_id, w.pc, w.work_function_id, w.work_pc, s.stall_reason
), caused AS (
  SELECT
    s.function_id, s.pc, s.samples * p.weight AS samples, coalesce(p.producer_space, '') = 'signal' AS is_signal,
    r.is_memory AND p.producer_pc IS NOT NULL AND coalesce(p.producer_space, 'none') NOT IN ('none', 'tensor cores')
      AS is_wait,
    p.producer_function_id, p.producer_pc, p.producer_space, p.explanation,
    CASE WHEN 'tensor' IN (i.class, q.class) OR i.mnemonic = 'WARPGROUP' THEN 'tensor cores' ELSE 'arithmetic' END AS unit
  FROM sampled s
  JOIN stall_reason r ON r.reason = s.stall_reason
  JOIN producer_awaited p
    ON p.function_id = s.work_function_id AND p.pc = s.work_pc AND p.stall_reason = s.stall_reason
  JOIN instruction i ON i.function_id = s.work_function_id AND i.pc = s.work_pc
  LEFT JOIN instruction q ON q.function_id = p.producer_function_id AND q.pc = p.producer_pc
), summed AS (
  SELECT
    function_id, pc, is_signal,
    CASE WHEN is_wait THEN producer_function_id END AS cause_function_id,
    CASE WHEN is_wait THEN producer_pc END AS cause_pc,
    CASE WHEN is_wait THEN producer_space ELSE unit END AS cause_space,
    sum(samples) AS samples,
    min(CASE WHEN is_wait THEN explanation END) AS explanation
  FROM caused
  GROUP BY function_id, pc, is_signal, CASE WHEN is_wait THEN producer_function_id END,
    CASE WHEN is_wait THEN producer_pc END, CASE WHEN is_wait THEN producer_space ELSE unit END
), divided AS (
  SELECT
    *,
    -- Signals are followed: they neither hide work nor are hidden.
    CASE WHEN is_signal THEN 'signal' WHEN cause_space IN ('global', 'generic', 'texture', 'mbarrier') THEN 'wait'
         ELSE 'work' END AS part
  FROM summed
), counted AS (
  SELECT
    *,
    sum(CASE WHEN part = 'wait' THEN samples ELSE 0.0 END) OVER (PARTITION BY function_id, pc) AS waiting,
    sum(CASE WHEN part = 'work' THEN samples ELSE 0.0 END) OVER (PARTITION BY function_id, pc) AS working
  FROM divided
), remaining AS (
  SELECT *, CASE WHEN part = 'work' THEN samples * greatest(0.0, 1.0 - 4.0 * waiting / working) ELSE samples END AS held
  FROM counted
)
SELECT
  function_id, pc, is_signal, cause_function_id, cause_pc, cause_space,
  held / sum(held) OVER (PARTITION BY function_id, pc), explanation
FROM remaining
WHERE held > 0.0
