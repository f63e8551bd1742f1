-- Launches
-- One row per launch of the program: its call, its kernel and its cost. `duration_ns` is its time in a replay, and null
-- without replays.
SELECT
  l.kernel_id, r.process_id, r.rank, l.device_id, c.stream_id, c.thread_id,
  c.begin_ns AS call_begin_ns, c.end_ns AS call_end_ns,
  d.duration_ns,
  f.demangled_name AS kernel, f.name AS mangled_name, n.short_kernel,
  l.grid_x, l.grid_y, l.grid_z, l.block_x, l.block_y, l.block_z,
  l.register_count, l.static_shared_bytes, l.dynamic_shared_bytes,
  l.op_id, x.op, x.line, x.module_path, x.step, l.graph_id, l.graph_node,
  o.occupancy, o.waves, s.samples, s.memory_samples, s.time_ns
FROM launch l
JOIN run r ON r.run_id = l.run_id
LEFT JOIN launch_run c ON c.run_id = l.run_id AND c.ordinal = l.ordinal
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
