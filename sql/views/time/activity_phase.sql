-- One piece of work of a GPU in a timeline run, with its phase of the program.
--
-- Kernels have that of their launch. Copies, fills and kernels without a launch have that of the time at which they begin.
CREATE VIEW activity_phase (
  run_id,
  -- The work, as in `gpu_activity`.
  activity_id,
  device_id,
  -- setup, steady, end or once, as in `launch_phase`.
  program_phase,
  -- The step, numbered from 0. Null outside steps.
  program_step
) AS
SELECT
  a.run_id, a.activity_id, a.device_id, coalesce(l.program_phase, s.program_phase),
  CASE WHEN l.kernel_id IS NULL THEN s.program_step ELSE l.program_step END
FROM gpu_activity a
LEFT JOIN launch_phase l ON l.kernel_id = a.kernel_id
LEFT JOIN segment_phase s ON s.run_id = a.run_id AND s.device_id = a.device_id AND s.begin_ns = a.begin_ns
WHERE a.kind <> 'synchronization'
