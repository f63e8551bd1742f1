-- Phases
-- The phases of a program with a timeline, over all its devices. steps: steps of the device with most of them. step_ns: a
-- step's median time. slowest_ns: the longest step, with its number. Shares are parts of the time of some phases of the
-- program. copy_kind: the direction of copies that takes most time, with its bytes and time. A first step whose idle time before its first work is unknown counts only if there is no other. setup_ns:
-- time before the first step, from the begin of the program or of the trace. setup_part: the largest part of it. end_ns:
-- time behind the last step.
WITH counted AS (
  SELECT *, max(CASE WHEN is_whole THEN 1 ELSE 0 END) OVER (PARTITION BY run_id, device_id) AS has_whole FROM program_step
), step AS (
  SELECT * FROM counted WHERE is_whole OR has_whole = 0
), steps AS (
  SELECT
    count(*) AS steps, median(CAST(duration_ns AS DOUBLE)) AS step_ns, max(duration_ns) AS slowest_ns,
    first_value(program_step ORDER BY duration_ns DESC, program_step) AS slowest_step
  FROM step
), bound AS (
  SELECT
    run_id, device_id,
    min(begin_ns) AS begin_ns, min(CASE WHEN program_phase = 'steady' THEN begin_ns END) AS steady_ns,
    max(CASE WHEN program_phase = 'steady' THEN end_ns END) AS steady_end_ns, max(end_ns) AS end_ns
  FROM phase_window
  GROUP BY run_id, device_id
), started AS (
  -- A trace begins with a profiler's window: what ran before is unknown.
  SELECT b.*, CASE WHEN i.run_id IS NULL AND r.started_ns > 0 AND r.started_ns < b.begin_ns THEN r.started_ns ELSE b.begin_ns END AS started_ns
  FROM bound b
  JOIN run r ON r.run_id = b.run_id
  LEFT JOIN (SELECT DISTINCT run_id FROM run_option WHERE name = 'imported.tool') i ON i.run_id = b.run_id
), spent AS (
  SELECT
    CAST(sum(duration_ns) AS DOUBLE) AS all_ns,
    sum(CASE WHEN kernel_count > collective_count THEN duration_ns ELSE 0 END) AS compute_ns,
    sum(CASE WHEN kernel_count = collective_count AND collective_count > 0 THEN duration_ns ELSE 0 END) AS collective_ns,
    sum(CASE WHEN kernel_count = 0 AND copy_count > 0 THEN duration_ns ELSE 0 END) AS copy_ns,
    sum(CASE WHEN kernel_count + copy_count = 0 THEN duration_ns ELSE 0 END) AS idle_ns
  FROM segment_phase
  WHERE program_phase IN ($phases)
), late AS (
  SELECT
    sum(CASE WHEN g.is_after_wait THEN s.duration_ns ELSE 0 END) AS wait_ns,
    sum(CASE WHEN NOT g.is_after_wait AND coalesce(g.next_copy_kind, '') = 'host_to_device' THEN s.duration_ns ELSE 0 END) AS input_ns,
    sum(s.duration_ns) AS late_ns
  FROM gpu_gap g
  JOIN segment_phase s ON s.run_id = g.run_id AND s.device_id = g.device_id AND s.stretch_ns = g.begin_ns
  WHERE g.cause IN ('late launch', 'late copy') AND s.program_phase IN ($phases)
), copied AS (
  SELECT a.copy_kind, sum(CAST(a.size_bytes AS DOUBLE)) AS bytes, CAST(sum(a.end_ns - a.begin_ns) AS DOUBLE) AS ns
  FROM gpu_activity a
  JOIN activity_phase p ON p.run_id = a.run_id AND p.activity_id = a.activity_id
  WHERE a.kind = 'copy' AND p.program_phase IN ($phases)
  GROUP BY a.copy_kind
), part AS (
  SELECT 'before the first work of the GPU' AS part, max(begin_ns - started_ns) AS ns FROM started WHERE steady_ns IS NOT NULL
  UNION ALL
  SELECT 'in first steps that are slower', max(last_ns - first_ns)
  FROM (
    SELECT a.run_id, a.device_id, min(a.begin_ns) AS first_ns, max(a.end_ns) AS last_ns
    FROM gpu_activity a
    JOIN launch_phase p ON p.kernel_id = a.kernel_id
    WHERE p.setup_part = 'warm-up'
    GROUP BY a.run_id, a.device_id
  )
  UNION ALL
  SELECT 'in tuning', max(last_ns - first_ns)
  FROM (
    SELECT a.run_id, a.device_id, min(a.begin_ns) AS first_ns, max(a.end_ns) AS last_ns
    FROM gpu_activity a
    JOIN launch_phase p ON p.kernel_id = a.kernel_id
    WHERE p.setup_part = 'tuning'
    GROUP BY a.run_id, a.device_id
  )
  UNION ALL
  SELECT 'before ' || work || ' at ' || next_line, max(ns)
  FROM (
    SELECT
      g.run_id, g.device_id, g.next_line, CASE g.next_kind WHEN 'kernel' THEN 'launches' ELSE 'copies' END AS work,
      sum(s.duration_ns) AS ns
    FROM gpu_gap g
    JOIN segment_phase s ON s.run_id = g.run_id AND s.device_id = g.device_id AND s.stretch_ns = g.begin_ns
    WHERE s.program_phase = 'setup' AND g.next_line IS NOT NULL
    GROUP BY 1, 2, 3, 4
  )
  GROUP BY work, next_line
)
SELECT
  s.steps, s.step_ns, CAST(s.slowest_ns AS DOUBLE) AS slowest_ns, s.slowest_step,
  p.compute_ns / nullif(p.all_ns, 0.0) AS compute_share, p.collective_ns / nullif(p.all_ns, 0.0) AS collective_share,
  p.copy_ns / nullif(p.all_ns, 0.0) AS copy_share, p.idle_ns / nullif(p.all_ns, 0.0) AS idle_share,
  l.wait_ns / nullif(p.all_ns, 0.0) AS wait_share, l.input_ns / nullif(p.all_ns, 0.0) AS input_share,
  (l.late_ns - l.wait_ns - l.input_ns) / nullif(p.all_ns, 0.0) AS launch_share,
  y.copy_kind, y.bytes AS copy_bytes, y.ns AS copy_ns, CAST(b.setup_ns AS DOUBLE) AS setup_ns, CAST(b.end_ns AS DOUBLE) AS end_ns, q.part AS setup_part, CAST(q.ns AS DOUBLE) AS setup_part_ns
FROM steps s
CROSS JOIN spent p
CROSS JOIN late l
CROSS JOIN (SELECT max(steady_ns - started_ns) AS setup_ns, max(end_ns - steady_end_ns) AS end_ns FROM started) b
LEFT JOIN (SELECT * FROM copied ORDER BY ns DESC, copy_kind LIMIT 1) y ON true
LEFT JOIN (SELECT part, ns FROM part WHERE ns > 0 ORDER BY ns DESC, part LIMIT 1) q ON true
