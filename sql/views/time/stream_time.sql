-- One stream of one device in one timeline run, and its work.
CREATE VIEW stream_time (
  run_id,
  device_id,
  -- The stream, as in `gpu_activity`.
  stream_id,
  -- Kernels.
  kernel_count,
  -- Copies and fills.
  copy_count,
  -- Begin of its first work, nanoseconds since the Unix epoch.
  begin_ns,
  -- Time from there to the end of its last work, nanoseconds.
  span_ns,
  -- Time with work, nanoseconds. Work of one stream rarely overlaps.
  busy_ns,
  -- Part of the span with work.
  busy_share
) AS
SELECT
  run_id, device_id, stream_id,
  sum(CASE WHEN kind = 'kernel' THEN 1 ELSE 0 END),
  sum(CASE WHEN kind = 'kernel' THEN 0 ELSE 1 END),
  min(begin_ns), max(end_ns) - min(begin_ns), sum(end_ns - begin_ns),
  sum(end_ns - begin_ns) / nullif(CAST(max(end_ns) - min(begin_ns) AS DOUBLE), 0.0)
FROM gpu_activity
WHERE kind <> 'synchronization' AND end_ns IS NOT NULL
GROUP BY run_id, device_id, stream_id
