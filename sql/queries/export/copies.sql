-- Memcpys and memsets
-- One row per memcpy and memset. With a timeline, begin and end are those on the GPU, and the call is that of the op's
-- thread. Without one, the begin is that of the call, and the end is null.
SELECT
  r.run_id, p.process_id, CAST(a.kind AS VARCHAR) AS kind, CAST(a.copy_kind AS VARCHAR) AS direction, a.size_bytes, a.device_id,
  a.stream_id, a.begin_ns, a.end_ns, a.op_id, a.call_begin_ns, a.call_end_ns, o.thread_id,
  a.call_name, a.correlation_id, a.copy_memory
FROM gpu_activity a
JOIN run r ON r.run_id = a.run_id
JOIN run p ON p.run_id = r.reference_run_id
LEFT JOIN op o ON o.op_id = a.op_id
WHERE a.kind IN ('copy', 'fill')
UNION ALL
SELECT
  r.run_id, r.process_id, 'copy', CAST(m.kind AS VARCHAR), m.size_bytes, NULL, m.stream_id, m.begin_ns, NULL, m.op_id, NULL, NULL, NULL,
  NULL, NULL, NULL
FROM memcpy m
JOIN run r ON r.run_id = m.run_id
WHERE r.reference_run_id = r.run_id AND NOT EXISTS (SELECT 1 FROM gpu_activity a WHERE a.kind = 'copy')
UNION ALL
SELECT r.run_id, r.process_id, 'fill', NULL, m.size_bytes, NULL, m.stream_id, m.begin_ns, NULL, m.op_id, NULL, NULL, NULL, NULL,
  NULL, NULL
FROM memset m
JOIN run r ON r.run_id = m.run_id
WHERE r.reference_run_id = r.run_id AND NOT EXISTS (SELECT 1 FROM gpu_activity a WHERE a.kind = 'fill')
ORDER BY begin_ns, kind, size_bytes
