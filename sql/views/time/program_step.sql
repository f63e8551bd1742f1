-- One step of the program on one device, in a timeline run, and what its time went to.
--
-- `compute_ns`, `collective_ns`, `copy_ns` and `idle_ns` add up to `duration_ns`. The three columns behind
-- it are parts of the idle time. Its rest is kernels that waited for their start, and gaps of unknown cause.
CREATE VIEW program_step (
  run_id,
  device_id,
  -- The step, numbered from 0.
  program_step,
  -- Begin, nanoseconds since the Unix epoch, as in `phase_window`.
  begin_ns,
  duration_ns,
  -- False for a first step whose idle time before its first work is part of set-up.
  is_whole,
  -- Time with work.
  busy_ns,
  -- Time with a kernel that is no collective.
  compute_ns,
  -- Time with a collective and no other kernel.
  collective_ns,
  -- Time with a copy or fill and no kernel.
  copy_ns,
  -- Time without work.
  idle_ns,
  -- Idle time before work that the host asked for late, right after it had waited for the device.
  wait_idle_ns,
  -- Idle time before a copy to the device that the host asked for late, other than that.
  input_idle_ns,
  -- All other idle time before work that the host asked for late.
  launch_idle_ns
) AS
WITH spent AS (
  SELECT
    run_id, device_id, program_step,
    sum(CASE WHEN kernel_count > collective_count THEN duration_ns ELSE 0 END) AS compute_ns,
    sum(CASE WHEN kernel_count = collective_count AND collective_count > 0 THEN duration_ns ELSE 0 END) AS collective_ns,
    sum(CASE WHEN kernel_count = 0 AND copy_count > 0 THEN duration_ns ELSE 0 END) AS copy_ns,
    sum(CASE WHEN kernel_count + copy_count = 0 THEN duration_ns ELSE 0 END) AS idle_ns
  FROM segment_phase
  WHERE program_step IS NOT NULL
  GROUP BY run_id, device_id, program_step
), late AS (
  SELECT
    s.run_id, s.device_id, s.program_step,
    sum(CASE WHEN g.is_after_wait THEN s.duration_ns ELSE 0 END) AS wait_ns,
    sum(CASE WHEN NOT g.is_after_wait AND coalesce(g.next_copy_kind, '') = 'host_to_device' THEN s.duration_ns ELSE 0 END) AS input_ns,
    sum(s.duration_ns) AS late_ns
  FROM gpu_gap g
  JOIN segment_phase s ON s.run_id = g.run_id AND s.device_id = g.device_id AND s.stretch_ns = g.begin_ns
  WHERE g.cause IN ('late launch', 'late copy')
  GROUP BY s.run_id, s.device_id, s.program_step
)
SELECT
  w.run_id, w.device_id, w.program_step, w.begin_ns, w.end_ns - w.begin_ns, w.is_whole,
  s.compute_ns + s.collective_ns + s.copy_ns, s.compute_ns, s.collective_ns, s.copy_ns, s.idle_ns,
  coalesce(l.wait_ns, 0), coalesce(l.input_ns, 0), coalesce(l.late_ns - l.wait_ns - l.input_ns, 0)
FROM phase_window w
JOIN spent s ON s.run_id = w.run_id AND s.device_id = w.device_id AND s.program_step = w.program_step
LEFT JOIN late l ON l.run_id = w.run_id AND l.device_id = w.device_id AND l.program_step = w.program_step
