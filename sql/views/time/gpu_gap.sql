-- One stretch of a device's time without work, between two pieces of work.
--
-- cause: `late launch` if the launch call of the next kernel began after the device had become idle: the host was late.
-- `late copy`: the same of a copy or fill. Where its call is not known, as in recordings, gaps of 20 us or more, since
-- nothing else ran that it could wait for. `start` if the call had begun before: the work waited for its start, or for
-- other work that it depends on. Null if the call is not known.
CREATE VIEW gpu_gap (
  run_id,
  device_id,
  begin_ns,
  duration_ns,
  -- The cause.
  cause,
  -- The next work of the process, as in `gpu_activity`. It ends the gap unless another process's does.
  next_activity_id,
  -- The launch that ends it. Null if a copy, a fill or another kernel does.
  next_kernel_id,
  -- Begin of its call, nanoseconds since the Unix epoch. Null where the source does not have the call.
  next_call_begin_ns,
  -- The line of that launch, or of the copy or fill that ends it.
  next_line,
  -- Kind of the work that ends it: kernel, copy or fill.
  next_kind,
  -- The direction of the copy that ends it.
  next_copy_kind,
  -- True if the host waited for the device when the gap began: a wait of the host ends in the gap, or a copy to the host
  -- precedes it. False if input ends it: a copy to the device of 1 KiB or more that comes 500 us later or more. The host
  -- made or loaded its data meanwhile.
  is_after_wait
) AS
WITH gap AS (
  SELECT run_id, device_id, begin_ns, end_ns, duration_ns FROM gpu_segment WHERE kernel_count + copy_count = 0
), ended AS (
  -- Work of another process can end a gap. The own work that comes next waited, too.
  SELECT * EXCEPT (work_ns), min(work_ns) OVER (PARTITION BY run_id, device_id ORDER BY end_ns DESC) AS next_ns
  FROM (
    SELECT *, CAST(NULL AS BIGINT) AS work_ns FROM gap
    UNION ALL
    SELECT run_id, device_id, CAST(NULL AS BIGINT), begin_ns AS end_ns, CAST(NULL AS BIGINT), begin_ns AS work_ns
    FROM gpu_activity
    WHERE kind <> 'synchronization' AND end_ns > begin_ns
  )
), next AS (
  SELECT
    g.run_id, g.device_id, g.begin_ns, g.end_ns, g.duration_ns,
    first_value(a.activity_id ORDER BY a.activity_id) AS activity_id,
    first_value(a.kernel_id ORDER BY a.activity_id) AS kernel_id,
    first_value(a.call_begin_ns ORDER BY a.activity_id) AS call_begin_ns,
    first_value(a.kind ORDER BY a.activity_id) AS kind,
    first_value(a.copy_kind ORDER BY a.activity_id) AS copy_kind,
    first_value(a.size_bytes ORDER BY a.activity_id) AS size_bytes,
    first_value(a.op_id ORDER BY a.activity_id) AS op_id
  FROM ended g
  JOIN gpu_activity a ON a.run_id = g.run_id AND a.device_id = g.device_id AND a.begin_ns = g.next_ns
  WHERE g.begin_ns IS NOT NULL
  GROUP BY g.run_id, g.device_id, g.begin_ns, g.end_ns, g.duration_ns
), read AS (
  SELECT DISTINCT g.run_id, g.device_id, g.begin_ns
  FROM gap g
  JOIN gpu_activity a ON a.run_id = g.run_id AND a.device_id = g.device_id AND a.end_ns = g.begin_ns
  WHERE a.copy_kind = 'device_to_host'
), moment AS (
  SELECT run_id, end_ns AS ns, end_ns AS wait_ns, CAST(NULL AS INT) AS device_id, CAST(NULL AS BIGINT) AS begin_ns
  FROM gpu_activity
  WHERE kind = 'synchronization' AND synchronization <> 'stream_wait_event' AND end_ns IS NOT NULL
  UNION ALL
  SELECT run_id, end_ns, CAST(NULL AS BIGINT), device_id, begin_ns FROM gap
), waited AS (
  SELECT *, max(wait_ns) OVER (PARTITION BY run_id ORDER BY ns) AS last_wait_ns FROM moment
)
SELECT
  n.run_id, n.device_id, n.begin_ns, n.duration_ns,
  CASE
    WHEN n.kind <> 'kernel' AND coalesce(n.call_begin_ns > n.begin_ns, n.duration_ns >= 20000) THEN 'late copy'
    WHEN coalesce(r.begin_ns, n.call_begin_ns) > n.begin_ns THEN 'late launch'
    WHEN coalesce(r.begin_ns, n.call_begin_ns) IS NOT NULL THEN 'start'
  END,
  n.activity_id, n.kernel_id, coalesce(r.begin_ns, n.call_begin_ns), coalesce(l.line, o.line), n.kind, n.copy_kind,
  (coalesce(w.last_wait_ns > n.begin_ns, false) OR d.run_id IS NOT NULL)
    AND NOT coalesce(n.copy_kind = 'host_to_device' AND n.size_bytes >= 1024 AND n.duration_ns >= 500000, false)
FROM next n
-- A launch without the end of its call has no call: its begin is that of the kernel.
LEFT JOIN launch_run r ON r.run_id = n.run_id AND r.kernel_id = n.kernel_id AND r.end_ns IS NOT NULL
LEFT JOIN launch_context l ON l.kernel_id = n.kernel_id
LEFT JOIN op_context o ON o.op_id = n.op_id
LEFT JOIN read d ON d.run_id = n.run_id AND d.device_id = n.device_id AND d.begin_ns = n.begin_ns
LEFT JOIN waited w ON w.run_id = n.run_id AND w.device_id = n.device_id AND w.begin_ns = n.begin_ns
