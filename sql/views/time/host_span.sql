-- One op, range or wait for the GPU on the CPU, in the runs with a timeline.
--
-- A timeline run records few ops. The ops of the recording are then placed by their launches: from the first launch call
-- to the last one of the timeline run. Launches of CUDA graphs place no op: theirs ran at the capture.
CREATE VIEW host_span (
  run_id,
  -- The thread, numbered as in `launch_run`. Null for a wait.
  thread_id,
  -- The op or range. Null for a wait.
  op_id,
  -- torch, triton, region, tuning or hlo, as in `op`, or wait.
  kind,
  -- Its name. For a wait, its kind, as in `gpu_activity`.
  name,
  begin_ns,
  end_ns,
  -- True if its times are those of its launch calls.
  is_derived
) AS
WITH RECURSIVE timed AS (
  SELECT DISTINCT run_id FROM gpu_activity
), called AS (
  SELECT u.run_id, u.thread_id, o.op_id, min(u.begin_ns) AS begin_ns, max(u.end_ns) AS end_ns
  FROM launch_run u
  JOIN timed t ON t.run_id = u.run_id
  JOIN launch l ON l.kernel_id = u.kernel_id
  JOIN op o ON o.op_id = l.op_id
  WHERE o.run_id <> u.run_id AND u.end_ns IS NOT NULL AND l.graph_id IS NULL
  GROUP BY u.run_id, u.thread_id, o.op_id
), above AS (
  SELECT run_id, thread_id, op_id, begin_ns, end_ns, 0 AS height FROM called
  UNION ALL
  -- A capture whose ops enclose each other in a cycle terminates, too.
  SELECT a.run_id, a.thread_id, o.parent_op_id, a.begin_ns, a.end_ns, a.height + 1
  FROM above a
  JOIN op o ON o.op_id = a.op_id
  WHERE o.parent_op_id IS NOT NULL AND a.height < 255
), own AS (
  SELECT DISTINCT run_id, kind FROM op
)
SELECT o.run_id, o.thread_id, o.op_id, CAST(o.kind AS VARCHAR), o.name, o.begin_ns, o.end_ns, false
FROM op o
JOIN timed t ON t.run_id = o.run_id
WHERE o.end_ns IS NOT NULL AND o.kind <> 'origin'
UNION ALL
SELECT a.run_id, a.thread_id, o.op_id, CAST(o.kind AS VARCHAR), o.name, min(a.begin_ns), max(a.end_ns), true
FROM above a
JOIN op o ON o.op_id = a.op_id
LEFT ANTI JOIN own w ON w.run_id = a.run_id AND w.kind = o.kind
WHERE o.kind <> 'origin'
GROUP BY a.run_id, a.thread_id, o.op_id, o.kind, o.name
UNION ALL
SELECT
  run_id, CAST(NULL AS INT UNSIGNED), CAST(NULL AS BIGINT UNSIGNED), 'wait',
  coalesce(CAST(synchronization AS VARCHAR), 'wait'), begin_ns, end_ns, false
FROM gpu_activity
WHERE kind = 'synchronization' AND coalesce(CAST(synchronization AS VARCHAR), '') <> 'stream_wait_event' AND end_ns > begin_ns
