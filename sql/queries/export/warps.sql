-- Warps
-- One row per phase of a warp, of the first launches up to 200,000 phases, in the order of begins. Times are those of the
-- launch's kernel in the timeline, if there is one: the run that timed warps ran later. phases: all that have a time.
WITH timed AS (
  SELECT
    kernel_id, begin_ns, row_number() OVER (PARTITION BY kernel_id ORDER BY run_id, begin_ns, activity_id) AS place
  FROM gpu_activity
  WHERE kernel_id IS NOT NULL
), first AS (
  SELECT kernel_id, run_id, min(begin_ns) AS begin_ns FROM block_time GROUP BY kernel_id, run_id
), numbered AS (
  SELECT
    *, row_number() OVER (ORDER BY kernel_id, run_id, begin_ns, block, warp, sequence) AS place, count(*) OVER () AS phases
  FROM warp_phase
)
SELECT
  w.kernel_id, p.process_id, w.block, w.warp, w.phase, CAST(w.pc AS BIGINT) AS pc,
  regexp_replace(i.file, '^.*/', '') || ':' || CAST(i.line AS VARCHAR) AS line,
  coalesce(t.begin_ns, f.begin_ns) + w.begin_ns AS begin_ns, coalesce(w.end_ns - w.begin_ns, 0) AS duration_ns, w.phases
FROM numbered w
JOIN first f ON f.kernel_id = w.kernel_id AND f.run_id = w.run_id
JOIN launch l ON l.kernel_id = w.kernel_id
JOIN run r ON r.run_id = l.run_id
JOIN run p ON p.run_id = r.reference_run_id
LEFT JOIN timed t ON t.kernel_id = w.kernel_id AND t.place = 1
LEFT JOIN instruction i ON i.function_id = w.function_id AND i.pc = w.pc
WHERE w.place <= 200000
ORDER BY begin_ns, w.kernel_id, w.block, w.warp, w.sequence
