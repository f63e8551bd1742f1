-- One stretch of a device's time in a timeline run: set-up, one step, the end, or all of a program that repeats nothing.
--
-- A step begins where the work of the step before it ends, and ends with the last work of its launches. So the idle time
-- before its first work belongs to it. Stretches of one device follow each other, and add up to its span.
CREATE VIEW phase_window (
  run_id,
  device_id,
  -- setup, steady (one step), end or once, as in `launch_phase`.
  program_phase,
  -- The step, numbered from 0. Null outside steps.
  program_step,
  begin_ns,
  end_ns,
  -- False for a first step behind set-up: the idle time before its first work is part of set-up.
  is_whole
) AS
WITH work AS (
  SELECT a.run_id, a.device_id, p.setup_part, p.program_step, a.begin_ns, a.end_ns
  FROM gpu_activity a
  JOIN launch_phase p ON p.kernel_id = a.kernel_id
  WHERE a.device_id IS NOT NULL AND a.end_ns > a.begin_ns
), step AS (
  SELECT run_id, device_id, program_step, min(begin_ns) AS first_ns, max(end_ns) AS last_ns
  FROM work
  WHERE program_step IS NOT NULL
  GROUP BY run_id, device_id, program_step
), warm AS (
  SELECT run_id, device_id, max(end_ns) AS ns FROM work WHERE setup_part = 'warm-up' GROUP BY run_id, device_id
), ended AS (
  -- Work of a step can end behind that of the next one, on another stream.
  SELECT *, max(last_ns) OVER (PARTITION BY run_id, device_id ORDER BY program_step) AS end_ns FROM step
), begun AS (
  SELECT
    e.run_id, e.device_id, e.program_step, e.end_ns,
    coalesce(lag(e.end_ns) OVER steps, least(w.ns, e.first_ns), e.first_ns) AS begin_ns,
    lag(e.end_ns) OVER steps IS NOT NULL OR w.ns IS NOT NULL AS is_whole
  FROM ended e
  LEFT JOIN warm w ON w.run_id = e.run_id AND w.device_id = e.device_id
  WINDOW steps AS (PARTITION BY e.run_id, e.device_id ORDER BY e.program_step)
), span AS (
  SELECT run_id, device_id, min(begin_ns) AS begin_ns, max(end_ns) AS end_ns FROM gpu_segment GROUP BY run_id, device_id
), steady AS (
  SELECT run_id, device_id, min(begin_ns) AS begin_ns, max(end_ns) AS end_ns FROM begun GROUP BY run_id, device_id
)
SELECT run_id, device_id, 'steady', program_step, begin_ns, end_ns, is_whole FROM begun
UNION ALL
SELECT p.run_id, p.device_id, 'setup', CAST(NULL AS INT UNSIGNED), p.begin_ns, s.begin_ns, true
FROM span p
JOIN steady s ON s.run_id = p.run_id AND s.device_id = p.device_id
WHERE s.begin_ns > p.begin_ns
UNION ALL
SELECT p.run_id, p.device_id, 'end', CAST(NULL AS INT UNSIGNED), s.end_ns, p.end_ns, true
FROM span p
JOIN steady s ON s.run_id = p.run_id AND s.device_id = p.device_id
WHERE p.end_ns > s.end_ns
UNION ALL
SELECT p.run_id, p.device_id, 'once', CAST(NULL AS INT UNSIGNED), p.begin_ns, p.end_ns, true
FROM span p
LEFT ANTI JOIN steady s ON s.run_id = p.run_id AND s.device_id = p.device_id
