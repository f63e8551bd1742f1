-- One stretch of a device's time in a timeline run: set-up, one step, the end, or all of a program that repeats nothing.
--
-- A step begins where the step before it ends, and ends with the last work of its launches, or with the range around it if
-- that is later. The first one begins with its range, or behind earlier work. So the idle time before its first work belongs
-- to it. Stretches of one device follow each other, and add up to its span, with what of these ranges is outside of it.
CREATE VIEW phase_window (
  run_id,
  device_id,
  -- setup, steady (one step), end, once or apart, as in `launch_phase`.
  program_phase,
  -- The step, numbered from 0. Null outside steps.
  program_step,
  begin_ns,
  end_ns,
  -- False for a first step behind set-up, if no range shows its begin: the idle time before its first work is part of set-up.
  is_whole
) AS
WITH work AS (
  SELECT
    a.run_id, a.device_id, p.program_phase, p.setup_part, p.program_step, a.begin_ns, a.end_ns,
    -- Ranges of another run have other times.
    CASE WHEN a.run_id = p.run_id THEN p.step_begin_ns END AS step_begin_ns,
    CASE WHEN a.run_id = p.run_id THEN p.step_end_ns END AS step_end_ns
  FROM gpu_activity a
  JOIN launch_phase p ON p.kernel_id = a.kernel_id
  WHERE a.device_id IS NOT NULL AND a.end_ns > a.begin_ns
), step AS (
  SELECT
    run_id, device_id, program_step, min(begin_ns) AS first_ns, greatest(max(end_ns), max(step_end_ns)) AS last_ns,
    min(step_begin_ns) AS range_ns
  FROM work
  WHERE program_step IS NOT NULL
  GROUP BY run_id, device_id, program_step
), before AS (
  SELECT
    run_id, device_id, max(CASE WHEN setup_part = 'warm-up' THEN end_ns END) AS warm_ns,
    max(CASE WHEN setup_part <> 'tuning' THEN end_ns END) AS ns
  FROM work
  WHERE program_phase = 'setup'
  GROUP BY run_id, device_id
), ended AS (
  -- Work of a step can end behind that of the next one, on another stream.
  SELECT *, max(last_ns) OVER (PARTITION BY run_id, device_id ORDER BY program_step) AS end_ns FROM step
), begun AS (
  SELECT
    e.run_id, e.device_id, e.program_step, e.end_ns,
    coalesce(lag(e.end_ns) OVER steps, least(CASE WHEN e.range_ns IS NULL THEN b.warm_ns ELSE greatest(e.range_ns, coalesce(b.ns, e.range_ns)) END, e.first_ns), e.first_ns) AS begin_ns,
    lag(e.end_ns) OVER steps IS NOT NULL OR e.range_ns IS NOT NULL OR b.warm_ns IS NOT NULL AS is_whole
  FROM ended e
  LEFT JOIN before b ON b.run_id = e.run_id AND b.device_id = e.device_id
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
SELECT
  p.run_id, p.device_id, CASE WHEN a.steps > 0 THEN 'apart' ELSE 'once' END, CAST(NULL AS INT UNSIGNED), p.begin_ns, p.end_ns, true
FROM span p
LEFT ANTI JOIN steady s ON s.run_id = p.run_id AND s.device_id = p.device_id
CROSS JOIN (SELECT count(*) AS steps FROM steady) a
