-- One launch call in a timeline run: the time that the host took for it, from the end of the thread's launch call before.
--
-- Waits of the host for the GPU in between do not count. Of the first launch of a thread nothing is known. A program with
-- several threads that wait has too much subtracted, never too little.
CREATE VIEW host_time (
  run_id,
  -- The launch. Of a graph launch, its first kernel.
  kernel_id,
  -- The launching thread.
  thread_id,
  -- Begin of the call, nanoseconds since the Unix epoch.
  call_begin_ns,
  -- Host time up to the end of the call, nanoseconds. Null for the first call of a thread.
  host_ns
) AS
WITH call AS (
  -- All kernels of one graph launch have one call.
  SELECT
    s.run_id, s.thread_id, s.begin_ns, s.end_ns,
    first_value(s.kernel_id ORDER BY s.ordinal) AS kernel_id
  FROM launch_run s
  JOIN run r ON r.run_id = s.run_id
  WHERE r.instrument = 'timeline' AND s.end_ns IS NOT NULL
  GROUP BY s.run_id, s.thread_id, s.begin_ns, s.end_ns
), event AS (
  SELECT run_id, thread_id, kernel_id, begin_ns, end_ns, 0 AS wait_ns FROM call
  UNION ALL
  SELECT run_id, NULL, NULL, begin_ns, end_ns, end_ns - begin_ns
  FROM gpu_activity
  WHERE kind = 'synchronization' AND synchronization <> 'stream_wait_event' AND end_ns IS NOT NULL
), waited AS (
  SELECT
    *, sum(wait_ns) OVER (PARTITION BY run_id ORDER BY end_ns ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS waited_ns
  FROM event
)
SELECT
  run_id, kernel_id, thread_id, begin_ns,
  greatest(end_ns - lag(end_ns) OVER thread - (waited_ns - lag(waited_ns) OVER thread), end_ns - begin_ns)
FROM waited
WHERE kernel_id IS NOT NULL
WINDOW thread AS (PARTITION BY run_id, thread_id ORDER BY end_ns)
