-- Waits for GPUs
-- One row per wait with a time that a profiler recorded, by the GPU and the stream for which the host or a stream waits. A
-- wait without a GPU is a call of its process, on the thread of its op.
SELECT
  a.run_id, p.process_id, o.thread_id, a.device_id, a.stream_id, a.begin_ns, a.end_ns,
  CAST(a.synchronization AS VARCHAR) AS kind, a.correlation_id
FROM gpu_activity a
JOIN run r ON r.run_id = a.run_id
JOIN run p ON p.run_id = r.reference_run_id
LEFT JOIN op o ON o.op_id = a.op_id
WHERE a.kind = 'synchronization' AND a.end_ns IS NOT NULL
ORDER BY a.begin_ns, a.end_ns, a.device_id
