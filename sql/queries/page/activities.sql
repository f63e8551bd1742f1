-- Work of the GPUs
-- Kernels, copies and fills with their measured times, the call that asked for each, and the time in which the GPU had
-- no work before it. from_ns: since the first work of the run, or of all runs if these overlap. kind: kernel, collective,
-- copy or fill. all_count: the work of all streams, of which the rows are the $top pieces closest to the median step, or
-- to the middle of a program that repeats nothing. gap_cause: as in `gpu_gap`.
WITH named AS (
  SELECT k.function_id, k.short_kernel, collective_kind(f.name) AS collective
  FROM kernel_name k
  JOIN function f ON f.function_id = k.function_id
), work AS (
  SELECT
    a.*, b.base_ns, count(*) OVER () AS all_count,
    row_number() OVER (ORDER BY abs(a.begin_ns - b.base_ns - b.center_ns), a.run_id, a.activity_id) AS place
  FROM gpu_activity a
  JOIN timeline_clock b ON b.run_id = a.run_id
  WHERE a.kind <> 'synchronization' AND a.device_id IS NOT NULL AND a.end_ns > a.begin_ns
), near AS (
  SELECT * FROM work WHERE place <= $top
)
SELECT
  k.run_id, r.rank, k.device_id, k.stream_id, k.activity_id, k.base_ns,
  k.begin_ns - k.base_ns AS from_ns,
  k.end_ns - k.begin_ns AS duration_ns,
  CASE WHEN k.kind <> 'kernel' THEN CAST(k.kind AS VARCHAR)
    WHEN coalesce(n.collective, collective_kind(k.kernel_name)) IS NOT NULL OR c.kernel_id IS NOT NULL THEN 'collective'
    ELSE 'kernel' END AS kind,
  coalesce(n.short_kernel, kernel_label(k.kernel_name), CAST(k.copy_kind AS VARCHAR), CAST(k.kind AS VARCHAR)) AS name,
  l.function_id,
  p.program_step,
  CASE WHEN u.end_ns IS NOT NULL THEN u.thread_id END AS thread_id,
  coalesce(CASE WHEN u.end_ns IS NOT NULL THEN u.begin_ns END, k.call_begin_ns) - k.base_ns AS call_from_ns,
  coalesce(u.end_ns - u.begin_ns, k.call_end_ns - k.call_begin_ns) AS call_ns,
  o.name AS op,
  g.duration_ns AS gap_ns,
  g.cause AS gap_cause,
  k.all_count
FROM near k
JOIN run r ON r.run_id = k.run_id
LEFT JOIN launch l ON l.kernel_id = k.kernel_id
LEFT JOIN named n ON n.function_id = l.function_id
LEFT JOIN launch_collective c ON c.kernel_id = k.kernel_id
LEFT JOIN launch_run u ON u.run_id = k.run_id AND u.kernel_id = k.kernel_id
LEFT JOIN op o ON o.op_id = coalesce(l.op_id, k.op_id)
LEFT JOIN activity_phase p ON p.run_id = k.run_id AND p.activity_id = k.activity_id
LEFT JOIN gpu_gap g ON g.run_id = k.run_id AND g.next_activity_id = k.activity_id
ORDER BY k.run_id, k.device_id, k.stream_id, k.begin_ns, k.activity_id
