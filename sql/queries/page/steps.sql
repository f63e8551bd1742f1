-- Steps of the program
-- Steps and the phases around them, by GPU. from_ns: since the first work of the GPUs, as in the query of that work.
-- Shares are parts of the step: kernels that are no collectives, collectives alone, copies alone, idle. idle before late
-- launches, late copies to the GPU, and after waits of the host are parts of idle. is_median: the step of median length.
WITH ordered AS (
  SELECT
    run_id, device_id, program_step, count(*) OVER (PARTITION BY run_id, device_id) AS steps,
    row_number() OVER (PARTITION BY run_id, device_id ORDER BY duration_ns, program_step) AS place
  FROM program_step
)
SELECT
  w.run_id, r.rank, w.device_id, w.program_phase, w.program_step, w.begin_ns - b.base_ns AS from_ns,
  w.end_ns - w.begin_ns AS duration_ns,
  s.compute_ns / nullif(CAST(s.duration_ns AS DOUBLE), 0.0) AS compute_share,
  s.collective_ns / nullif(CAST(s.duration_ns AS DOUBLE), 0.0) AS collective_share,
  s.copy_ns / nullif(CAST(s.duration_ns AS DOUBLE), 0.0) AS copy_share,
  s.idle_ns / nullif(CAST(s.duration_ns AS DOUBLE), 0.0) AS idle_share,
  s.launch_idle_ns / nullif(CAST(s.duration_ns AS DOUBLE), 0.0) AS launch_idle_share,
  s.input_idle_ns / nullif(CAST(s.duration_ns AS DOUBLE), 0.0) AS input_idle_share,
  s.wait_idle_ns / nullif(CAST(s.duration_ns AS DOUBLE), 0.0) AS wait_idle_share,
  coalesce(o.place = (o.steps + 1) / 2, false) AS is_median
FROM phase_window w
JOIN timeline_clock b ON b.run_id = w.run_id
JOIN run r ON r.run_id = w.run_id
LEFT JOIN program_step s ON s.run_id = w.run_id AND s.device_id = w.device_id AND s.program_step = w.program_step
LEFT JOIN ordered o ON o.run_id = w.run_id AND o.device_id = w.device_id AND o.program_step = w.program_step
ORDER BY w.run_id, w.device_id, w.begin_ns, w.program_step NULLS FIRST
