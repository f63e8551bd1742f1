-- One execution of one launch in a timeline run: its call on the CPU, and its kernel on the GPU.
--
-- Launches with the most `alone_ns` are the critical ones: nothing else ran, and the program gets faster with them.
CREATE VIEW launch_timeline (
  kernel_id,
  run_id,
  -- The execution, as in `gpu_activity`.
  activity_id,
  device_id,
  -- The stream.
  stream_id,
  -- Begin of the launch call, nanoseconds since the Unix epoch. Of a graph's kernel, that of the graph's launch call.
  -- Null where the source does not have the call.
  call_begin_ns,
  -- Length of the launch call.
  call_ns,
  -- Begin of the kernel.
  begin_ns,
  -- End of the kernel.
  end_ns,
  duration_ns,
  -- Time from the begin of the call to that of the kernel.
  queue_ns,
  -- Time of the kernel in which the device did nothing else.
  alone_ns
) AS
WITH alone AS (
  SELECT run_id, activity_id, sum(duration_ns) AS ns
  FROM gpu_segment
  WHERE activity_id IS NOT NULL
  GROUP BY run_id, activity_id
)
SELECT
  a.kernel_id, a.run_id, a.activity_id, a.device_id, a.stream_id, r.begin_ns, r.end_ns - r.begin_ns, a.begin_ns, a.end_ns,
  a.end_ns - a.begin_ns, a.begin_ns - r.begin_ns, coalesce(n.ns, 0)
FROM gpu_activity a
-- A launch without the end of its call has no call: its begin is that of the kernel.
LEFT JOIN launch_run r ON r.run_id = a.run_id AND r.kernel_id = a.kernel_id AND r.end_ns IS NOT NULL
LEFT JOIN alone n ON n.run_id = a.run_id AND n.activity_id = a.activity_id
WHERE a.kernel_id IS NOT NULL
