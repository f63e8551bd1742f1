-- Memcpys and memsets
-- One row per call, with its bytes. Times are those of the call.
SELECT
  r.process_id, 'copy' AS kind, CAST(m.kind AS VARCHAR) AS direction, m.size_bytes, m.stream_id, m.begin_ns, m.op_id
FROM memcpy m
JOIN run r ON r.run_id = m.run_id
WHERE r.reference_run_id = r.run_id
UNION ALL
SELECT r.process_id, 'fill', NULL, m.size_bytes, m.stream_id, m.begin_ns, m.op_id
FROM memset m
JOIN run r ON r.run_id = m.run_id
WHERE r.reference_run_id = r.run_id
ORDER BY begin_ns, kind, size_bytes
