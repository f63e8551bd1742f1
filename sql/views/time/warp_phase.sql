-- One phase of one warp inside of a launch, in time: a wait, a start of copies or matrix products, or a round of a loop.
--
-- Recorded by `--warps-timeline` for some blocks of a launch. Times begin with the launch's first block, as in `launch_block`.
--
-- | phase | meaning |
-- |---|---|
-- | barrier | it waits for other warps (BAR) |
-- | mbarrier | it waits for an mbarrier: repeated tries are one wait |
-- | copies | it waits for its asynchronous copies (DEPBAR) |
-- | matrix | it waits for matrix products of its warpgroup (WARPGROUP.DEPBAR) |
-- | copy start, matrix start | moments without an end: what is started goes on |
-- | round | a round of a loop that contains any of these |
CREATE VIEW warp_phase (
  kernel_id,
  -- The run that measured it.
  run_id,
  -- Linear block index, as in `launch_block`.
  block,
  -- Index of the warp in its block.
  warp,
  -- Order within the warp: its first moment.
  sequence,
  -- The launched kernel, which holds the instruction.
  function_id,
  -- The instruction, at repeated tries the first one.
  pc,
  phase,
  -- Nanoseconds after the launch's first block.
  begin_ns,
  -- Null at a start, and in a loop's last round.
  end_ns,
  -- Its length in cycles of the multiprocessor. It includes the instrument's 50 for each moment inside.
  cycles,
  -- Tries of an mbarrier. Else 1.
  tries
) AS
WITH named AS (
  SELECT
    e.*, l.function_id, i.text, i.mnemonic AS operation
  FROM warp_event e
  JOIN launch l ON l.kernel_id = e.kernel_id
  LEFT JOIN instruction i ON i.function_id = l.function_id AND i.pc = e.pc
), followed AS (
  SELECT
    *,
    lead(moment) OVER (PARTITION BY kernel_id, run_id, block, warp ORDER BY sequence) = 'done'
      AND lead(pc) OVER (PARTITION BY kernel_id, run_id, block, warp ORDER BY sequence) = pc AS is_wait,
    lead(cycles) OVER (PARTITION BY kernel_id, run_id, block, warp ORDER BY sequence) AS next_cycles,
    lead(time_ns) OVER (PARTITION BY kernel_id, run_id, block, warp ORDER BY sequence) AS next_ns,
    lead(cycles) OVER (PARTITION BY kernel_id, run_id, block, warp, pc, moment ORDER BY sequence) AS again_cycles,
    lead(time_ns) OVER (PARTITION BY kernel_id, run_id, block, warp, pc, moment ORDER BY sequence) AS again_ns
  FROM named
), phased AS (
  SELECT
    kernel_id, run_id, block, warp, sequence, function_id, pc, text, cycles, time_ns,
    CASE operation
      WHEN 'BAR' THEN 'barrier'
      WHEN 'SYNCS' THEN 'mbarrier'
      WHEN 'DEPBAR' THEN 'copies'
      WHEN 'WARPGROUP' THEN CASE WHEN is_wait THEN 'matrix' ELSE 'matrix start' END
      WHEN 'LDGSTS' THEN 'copy start'
      WHEN 'UTMALDG' THEN 'copy start'
      WHEN 'UTMASTG' THEN 'copy start'
      WHEN 'UTMAREDG' THEN 'copy start'
      WHEN 'UBLKCP' THEN 'copy start'
      WHEN 'UBLKRED' THEN 'copy start'
      ELSE 'round'
    END AS phase,
    is_wait, next_cycles, next_ns, again_cycles, again_ns
  FROM followed
  WHERE moment = 'issue'
), ended AS (
  SELECT
    *, CASE WHEN phase = 'round' THEN again_cycles WHEN is_wait THEN next_cycles END AS end_cycles,
    CASE WHEN phase = 'round' THEN again_ns WHEN is_wait THEN next_ns END AS end_ns,
    CASE
      WHEN phase = 'mbarrier' AND lag(phase) OVER (PARTITION BY kernel_id, run_id, block, warp ORDER BY sequence) = 'mbarrier'
        AND (lag(text) OVER (PARTITION BY kernel_id, run_id, block, warp ORDER BY sequence) = text
          OR lag(pc) OVER (PARTITION BY kernel_id, run_id, block, warp ORDER BY sequence) = pc) THEN 0
      ELSE 1
    END AS is_first
  FROM phased
), numbered AS (
  SELECT *, sum(is_first) OVER (PARTITION BY kernel_id, run_id, block, warp ORDER BY sequence) AS episode FROM ended
), first AS (
  SELECT kernel_id, run_id, min(begin_ns) AS first_ns FROM block_time GROUP BY kernel_id, run_id
)
SELECT
  n.kernel_id, n.run_id, CAST(n.block AS BIGINT), CAST(n.warp AS BIGINT), min(n.sequence), n.function_id,
  first_value(n.pc ORDER BY n.sequence), n.phase, min(n.time_ns) - max(f.first_ns), max(n.end_ns) - max(f.first_ns),
  CAST(max(n.end_cycles) AS BIGINT) - CAST(min(n.cycles) AS BIGINT), count(*)
FROM numbered n
JOIN first f ON f.kernel_id = n.kernel_id AND f.run_id = n.run_id
GROUP BY n.kernel_id, n.run_id, n.block, n.warp, n.episode, n.function_id, n.phase
