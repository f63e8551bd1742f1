-- Moments of several runs
-- One row per launch call that two runs of one program recorded: its begin in a run, and its times in the timeline whose
-- clock the file has, else in the run that defines the program.
WITH timed AS (
  SELECT r.reference_run_id, min(a.run_id) AS run_id
  FROM gpu_activity a
  JOIN run r ON r.run_id = a.run_id
  WHERE a.kernel_id IS NOT NULL AND a.end_ns IS NOT NULL
  GROUP BY r.reference_run_id
)
SELECT c.run_id, c.thread_id, c.begin_ns, b.begin_ns AS clock_begin_ns, b.end_ns AS clock_end_ns
FROM launch_run c
JOIN run r ON r.run_id = c.run_id
LEFT JOIN timed t ON t.reference_run_id = r.reference_run_id
JOIN launch_run b ON b.run_id = coalesce(t.run_id, r.reference_run_id) AND b.kernel_id = c.kernel_id
WHERE b.run_id <> c.run_id AND c.matched <> 'replayed'
ORDER BY c.run_id, c.begin_ns, c.ordinal
