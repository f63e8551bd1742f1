-- One copy or fill in a timeline run, its rate, and the part of it that kernels of the device hide.
CREATE VIEW copy_time (
  run_id,
  -- The work, as in `gpu_activity`.
  activity_id,
  -- copy or fill.
  kind,
  -- The direction of a copy.
  copy_kind,
  device_id,
  -- The stream.
  stream_id,
  -- Bytes.
  size_bytes,
  begin_ns,
  duration_ns,
  -- Bytes per second.
  bytes_per_second,
  -- Time in which a kernel of the device ran, too.
  hidden_ns
) AS
WITH so_far AS (
  -- Time with a kernel before each moment at which anything begins or ends.
  SELECT
    run_id, device_id, end_ns AS ns,
    sum(CASE WHEN kernel_count > 0 THEN duration_ns ELSE 0 END) OVER (PARTITION BY run_id, device_id ORDER BY begin_ns) AS kernel_ns
  FROM gpu_segment
)
SELECT
  a.run_id, a.activity_id, a.kind, a.copy_kind, a.device_id, a.stream_id, a.size_bytes, a.begin_ns, a.end_ns - a.begin_ns,
  a.size_bytes * 1e9 / nullif(CAST(a.end_ns - a.begin_ns AS DOUBLE), 0.0),
  coalesce(e.kernel_ns, 0) - coalesce(b.kernel_ns, 0)
FROM gpu_activity a
LEFT JOIN so_far b ON b.run_id = a.run_id AND b.device_id = a.device_id AND b.ns = a.begin_ns
LEFT JOIN so_far e ON e.run_id = a.run_id AND e.device_id = a.device_id AND e.ns = a.end_ns
WHERE a.kind IN ('copy', 'fill')
