-- One stretch of a device's time without work, between two pieces of work.
--
-- cause: `late launch` if the launch call of the next kernel began after the device had become idle: the host was late.
-- `start` if it had begun before: the kernel waited for its start, or for other work that it depends on. Null if the
-- next work is not a recorded kernel, or if its launch call is not known.
CREATE VIEW gpu_gap (
  -- The run.
  run_id,
  -- CUDA's device ordinal.
  device_id,
  -- Begin, nanoseconds since the Unix epoch.
  begin_ns,
  -- Its length, nanoseconds.
  duration_ns,
  -- The cause.
  cause,
  -- The launch that ends it. Null if a copy, a fill or another kernel does.
  next_kernel_id,
  -- Begin of its call, nanoseconds since the Unix epoch. Null where the source does not have the call.
  next_call_begin_ns,
  -- The line of that launch.
  next_line
) AS
WITH gap AS (
  SELECT run_id, device_id, begin_ns, end_ns, duration_ns FROM gpu_segment WHERE kernel_count + copy_count = 0
), next AS (
  SELECT
    g.run_id, g.device_id, g.begin_ns, g.duration_ns,
    first_value(a.kernel_id ORDER BY a.activity_id) AS kernel_id
  FROM gap g
  JOIN gpu_activity a ON a.run_id = g.run_id AND a.device_id = g.device_id AND a.begin_ns = g.end_ns
  GROUP BY g.run_id, g.device_id, g.begin_ns, g.duration_ns
)
SELECT
  n.run_id, n.device_id, n.begin_ns, n.duration_ns,
  CASE WHEN r.begin_ns > n.begin_ns THEN 'late launch' WHEN r.begin_ns IS NOT NULL THEN 'start' END,
  n.kernel_id, r.begin_ns, l.line
FROM next n
-- A launch without the end of its call has no call: its begin is that of the kernel.
LEFT JOIN launch_run r ON r.run_id = n.run_id AND r.kernel_id = n.kernel_id AND r.end_ns IS NOT NULL
LEFT JOIN launch_context l ON l.kernel_id = n.kernel_id
