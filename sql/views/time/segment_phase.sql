-- One stretch of a device's time in which the same work ran, as in `gpu_segment`, with its phase of the program. Where a
-- step begins or ends in a stretch, this has a row on either side.
CREATE VIEW segment_phase (
  run_id,
  device_id,
  begin_ns,
  duration_ns,
  -- Kernels that run, collectives too.
  kernel_count,
  -- Collectives among these.
  collective_count,
  -- Copies and fills that run.
  copy_count,
  -- setup, steady, end, once or apart, as in `phase_window`.
  program_phase,
  -- The step, numbered from 0. Null outside steps.
  program_step,
  -- Begin of its stretch in `gpu_segment`. Before or behind all work of the device, its own.
  stretch_ns
) AS
WITH window_rank AS (
  SELECT *, row_number() OVER (PARTITION BY run_id, device_id ORDER BY begin_ns, end_ns) AS place FROM phase_window
), span AS (
  SELECT run_id, device_id, min(begin_ns) AS begin_ns, max(end_ns) AS end_ns FROM gpu_segment GROUP BY run_id, device_id
), covered AS (
  SELECT run_id, device_id, min(begin_ns) AS begin_ns, max(end_ns) AS end_ns FROM phase_window GROUP BY run_id, device_id
), stretch AS (
  SELECT run_id, device_id, begin_ns, kernel_count, collective_count, copy_count FROM gpu_segment
  UNION ALL
  -- Ranges around steps begin before all work, and end behind it.
  SELECT run_id, device_id, begin_ns, 0, 0, 0 FROM covered
  UNION ALL
  SELECT run_id, device_id, end_ns, 0, 0, 0 FROM span
), first_stretch AS (
  SELECT
    run_id, device_id, begin_ns, max(kernel_count) AS kernel_count, max(collective_count) AS collective_count,
    max(copy_count) AS copy_count
  FROM stretch
  GROUP BY run_id, device_id, begin_ns
), moment AS (
  SELECT run_id, device_id, begin_ns, begin_ns AS stretch_ns, CAST(NULL AS BIGINT UNSIGNED) AS place FROM first_stretch
  UNION ALL
  SELECT run_id, device_id, begin_ns, NULL, place FROM window_rank
  UNION ALL
  SELECT run_id, device_id, end_ns, NULL, NULL FROM covered
), joined AS (
  SELECT run_id, device_id, begin_ns, max(stretch_ns) AS stretch_ns, max(place) AS place
  FROM moment
  GROUP BY run_id, device_id, begin_ns
), placed AS (
  SELECT
    run_id, device_id, begin_ns, lead(begin_ns) OVER so_far - begin_ns AS duration_ns,
    max(stretch_ns) OVER so_far AS stretch_ns, max(place) OVER so_far AS window_place
  FROM joined
  WINDOW so_far AS (PARTITION BY run_id, device_id ORDER BY begin_ns)
)
SELECT
  p.run_id, p.device_id, p.begin_ns, p.duration_ns, s.kernel_count, s.collective_count, s.copy_count,
  w.program_phase, w.program_step, p.stretch_ns
FROM placed p
JOIN first_stretch s ON s.run_id = p.run_id AND s.device_id = p.device_id AND s.begin_ns = p.stretch_ns
JOIN window_rank w ON w.run_id = p.run_id AND w.device_id = p.device_id AND w.place = p.window_place
WHERE p.duration_ns IS NOT NULL
