-- Launches
-- One row per launch of the program: its call, its kernel and its cost. `gpu_begin_ns` is the begin on the GPU, from a
-- timeline, and null without one. `duration_ns` is that of the timeline, else of a replay, else null. `time_ns` is an
-- estimate from samples. Times are those of `run_id`, the process is that of the run that defines the program.
WITH timed AS (
  SELECT
    kernel_id, run_id, device_id, stream_id, begin_ns, end_ns, correlation_id, call_name,
    row_number() OVER (PARTITION BY kernel_id ORDER BY run_id, begin_ns, activity_id) AS place
  FROM gpu_activity
  WHERE kernel_id IS NOT NULL
)
SELECT
  l.kernel_id, r.run_id, p.process_id, r.rank, coalesce(t.device_id, l.device_id) AS device_id,
  coalesce(t.stream_id, c.stream_id) AS stream_id,
  -- Ops are those of the run that defines the launch, and a thread has one number in both.
  coalesce(e.thread_id, c.thread_id) AS thread_id,
  -- A launch in a timeline without the end of its call has no call: its begin is that of the kernel.
  CASE WHEN c.end_ns IS NOT NULL OR t.begin_ns IS NULL THEN c.begin_ns END AS call_begin_ns, c.end_ns AS call_end_ns,
  t.call_name, t.correlation_id, t.begin_ns AS gpu_begin_ns,
  coalesce(CAST(t.end_ns - t.begin_ns AS DOUBLE), d.duration_ns) AS duration_ns,
  f.demangled_name AS kernel, f.name AS mangled_name, n.short_kernel,
  -- The name in the trace that was imported: the profiler demangles some names and others not.
  CASE WHEN r.program LIKE 'kineto%' THEN f.name ELSE f.demangled_name END AS traced_kernel,
  l.grid_x, l.grid_y, l.grid_z, l.block_x, l.block_y, l.block_z,
  l.register_count, l.static_shared_bytes, l.dynamic_shared_bytes,
  l.op_id, x.op, x.line, x.module_path, x.step, l.graph_id, l.graph_node,
  o.occupancy, o.waves, s.samples, s.memory_samples, s.time_ns
FROM launch l
LEFT JOIN timed t ON t.kernel_id = l.kernel_id AND t.place = 1
JOIN run r ON r.run_id = coalesce(t.run_id, l.run_id)
JOIN run p ON p.run_id = r.reference_run_id
LEFT JOIN launch_run c ON c.run_id = coalesce(t.run_id, l.run_id) AND c.kernel_id = l.kernel_id
LEFT JOIN (SELECT run_id, kernel_id, min(thread_id) AS thread_id FROM launch_run GROUP BY run_id, kernel_id) e
  ON e.run_id = l.run_id AND e.kernel_id = l.kernel_id
LEFT JOIN function f ON f.function_id = l.function_id
LEFT JOIN kernel_name n ON n.function_id = l.function_id
LEFT JOIN launch_context x ON x.kernel_id = l.kernel_id
LEFT JOIN launch_duration d ON d.kernel_id = l.kernel_id
LEFT JOIN launch_occupancy o ON o.kernel_id = l.kernel_id
LEFT JOIN (
  SELECT
    kernel_id, sum(samples) AS samples, sum(memory_samples) AS memory_samples, sum(time_ns) AS time_ns
  FROM sample_cost
  GROUP BY kernel_id
) s ON s.kernel_id = l.kernel_id
ORDER BY l.kernel_id
