-- One phase at one instruction of one launch, over the warps whose phases were recorded: how long they spend in it.
--
-- Samples say how often a warp waits at an instruction. This says for how long each time, and how unequal warps are.
CREATE VIEW kernel_phase (
  kernel_id,
  function_id,
  pc,
  -- As in `warp_phase`.
  phase,
  -- The source line of the instruction. Null without line information.
  place,
  -- Disassembly of the instruction.
  text,
  -- Warps that have been there.
  warps,
  -- Phases of all of them.
  phases,
  -- Their mean length, nanoseconds. Null for moments without an end.
  mean_ns,
  -- The longest.
  max_ns,
  -- Part of the time of the recorded warps, from the begins of their blocks to the ends. Phases inside a round count there, too.
  warp_share
) AS
WITH spent AS (
  SELECT
    kernel_id, run_id, function_id, pc, phase, count(*) AS phases, count(DISTINCT CAST(block AS VARCHAR) || ' ' || CAST(warp AS VARCHAR)) AS warps,
    avg(end_ns - begin_ns) AS mean_ns, max(end_ns - begin_ns) AS max_ns, CAST(sum(end_ns - begin_ns) AS DOUBLE) AS all_ns
  FROM warp_phase
  GROUP BY kernel_id, run_id, function_id, pc, phase
), recorded AS (
  SELECT w.kernel_id, w.run_id, CAST(sum(t.end_ns - t.begin_ns) AS DOUBLE) AS all_ns
  FROM (SELECT DISTINCT kernel_id, run_id, block, warp FROM warp_event) w
  JOIN block_time t ON t.kernel_id = w.kernel_id AND t.run_id = w.run_id AND t.block = w.block
  GROUP BY w.kernel_id, w.run_id
)
SELECT
  s.kernel_id, s.function_id, s.pc, s.phase, regexp_replace(i.file, '^.*/', '') || ':' || CAST(i.line AS VARCHAR), i.text,
  s.warps, s.phases, s.mean_ns, s.max_ns, s.all_ns / nullif(r.all_ns, 0.0)
FROM spent s
JOIN recorded r ON r.kernel_id = s.kernel_id AND r.run_id = s.run_id
LEFT JOIN instruction i ON i.function_id = s.function_id AND i.pc = s.pc
