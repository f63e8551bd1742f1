-- One stretch of a device's time in which the same work ran, as in `gpu_segment`, with its phase of the program.
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
  -- setup, steady, end or once, as in `phase_window`.
  program_phase,
  -- The step, numbered from 0. Null outside steps.
  program_step
) AS
WITH window_rank AS (
  SELECT *, row_number() OVER (PARTITION BY run_id, device_id ORDER BY begin_ns, end_ns) AS place FROM phase_window
), moment AS (
  SELECT run_id, device_id, begin_ns, CAST(NULL AS BIGINT UNSIGNED) AS place, duration_ns, kernel_count, collective_count, copy_count
  FROM gpu_segment
  UNION ALL
  SELECT run_id, device_id, begin_ns, place, NULL, NULL, NULL, NULL FROM window_rank
), placed AS (
  -- A stretch that begins with a window belongs to it.
  SELECT *, max(place) OVER (PARTITION BY run_id, device_id ORDER BY begin_ns) AS window_place FROM moment
)
SELECT
  p.run_id, p.device_id, p.begin_ns, p.duration_ns, p.kernel_count, p.collective_count, p.copy_count,
  w.program_phase, w.program_step
FROM placed p
JOIN window_rank w ON w.run_id = p.run_id AND w.device_id = p.device_id AND w.place = p.window_place
WHERE p.duration_ns IS NOT NULL
