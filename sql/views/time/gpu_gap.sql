-- One stretch of a device's time without work, between two pieces of work.
--
-- cause: `late launch` if the call of the next kernel, copy or fill began after the device had become idle: the host was
-- late. `start` if it had begun before: the work waited for its start, or for other work that it depends on. Null if the
-- call is not known, as of copies in recordings.
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
  -- The work that ends it, as in `gpu_activity`.
  next_activity_id,
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
    first_value(a.activity_id ORDER BY a.activity_id) AS activity_id,
    first_value(a.kernel_id ORDER BY a.activity_id) AS kernel_id,
    first_value(a.call_begin_ns ORDER BY a.activity_id) AS call_begin_ns
  FROM gap g
  JOIN gpu_activity a ON a.run_id = g.run_id AND a.device_id = g.device_id AND a.begin_ns = g.end_ns
  GROUP BY g.run_id, g.device_id, g.begin_ns, g.duration_ns
)
SELECT
  n.run_id, n.device_id, n.begin_ns, n.duration_ns,
  CASE
    WHEN coalesce(r.begin_ns, n.call_begin_ns) > n.begin_ns THEN 'late launch'
    WHEN coalesce(r.begin_ns, n.call_begin_ns) IS NOT NULL THEN 'start'
  END,
  n.activity_id, n.kernel_id, coalesce(r.begin_ns, n.call_begin_ns), l.line
FROM next n
-- A launch without the end of its call has no call: its begin is that of the kernel.
LEFT JOIN launch_run r ON r.run_id = n.run_id AND r.kernel_id = n.kernel_id AND r.end_ns IS NOT NULL
LEFT JOIN launch_context l ON l.kernel_id = n.kernel_id
