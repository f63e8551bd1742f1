-- Why do streams stand idle?
-- The idle time of each stream by cause, as Holistic Trace Analysis counts it. host_wait: the launch call came after the end of
-- the stream's last work. kernel_wait: shorter than 30 us. other: the work waited for that of another stream.
-- Capture: time_truth
WITH work AS (
  SELECT
    a.device_id, a.stream_id, a.begin_ns, coalesce(t.call_begin_ns, a.call_begin_ns) AS call_ns,
    lag(a.end_ns) OVER (PARTITION BY a.run_id, a.device_id, a.stream_id ORDER BY a.begin_ns) AS free_ns
  FROM gpu_activity a
  LEFT JOIN launch_timeline t ON t.run_id = a.run_id AND t.activity_id = a.activity_id
  WHERE a.kind <> 'synchronization' AND a.end_ns IS NOT NULL
)
SELECT
  device_id, stream_id,
  CASE WHEN call_ns > free_ns THEN 'host_wait' WHEN begin_ns - free_ns < 30000 THEN 'kernel_wait' ELSE 'other' END AS cause,
  count(*) AS gaps, sum(begin_ns - free_ns) / 1000 AS idle_us
FROM work
WHERE free_ns IS NOT NULL
GROUP BY 1, 2, 3
ORDER BY device_id, stream_id, cause
