-- Waits for GPUs
-- One row per wait with a time that a profiler recorded, by the GPU and the stream for which the host or a stream waits.
SELECT
  a.run_id, a.device_id, a.stream_id, a.begin_ns, a.end_ns, CAST(a.synchronization AS VARCHAR) AS kind, a.correlation_id
FROM gpu_activity a
WHERE a.kind = 'synchronization' AND a.device_id IS NOT NULL AND a.end_ns IS NOT NULL
ORDER BY a.begin_ns, a.end_ns, a.device_id
