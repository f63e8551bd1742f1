-- Clocks
-- One row per run: the run whose clock the times of its program have, which is the first with a timeline, else the one that
-- defines the program.
WITH timed AS (
  SELECT r.reference_run_id, min(a.run_id) AS run_id
  FROM gpu_activity a
  JOIN run r ON r.run_id = a.run_id
  WHERE a.kernel_id IS NOT NULL AND a.end_ns IS NOT NULL
  GROUP BY r.reference_run_id
)
SELECT r.run_id, coalesce(t.run_id, r.reference_run_id) AS clock_run_id, t.run_id IS NOT NULL AS has_timeline
FROM run r
LEFT JOIN timed t ON t.reference_run_id = r.reference_run_id
ORDER BY r.run_id
