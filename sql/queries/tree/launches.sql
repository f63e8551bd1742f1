-- Call paths
-- One launch with its call path and its cost. The tree aggregates these rows.
WITH given AS (
  SELECT
    kernel_id,
    max(CASE WHEN metric = 'flops' THEN value END) AS flops,
    max(CASE WHEN metric = 'flops' THEN time_ns END) AS flops_ns,
    max(CASE WHEN metric = 'bytes' THEN value END) AS bytes,
    max(CASE WHEN metric = 'bytes' THEN time_ns END) AS bytes_ns
  FROM launch_metric
  GROUP BY kernel_id
)
SELECT
  c.frames, c.user_frames, c.forward_frames, c.module_path, c.phase, h.program_step AS step, r.names AS ranges, c.ops,
  coalesce(n.short_kernel, c.kernel) AS kernel, c.samples, c.memory_samples, c.time_ns,
  g.flops, g.flops_ns, g.bytes, g.bytes_ns, c.kernel_id, p.kernel_id IS NOT NULL AS is_program_launch
FROM call_path_cost c
LEFT JOIN program_launch p ON p.kernel_id = c.kernel_id
LEFT JOIN launch_phase h ON h.kernel_id = c.kernel_id
LEFT JOIN launch_range r ON r.kernel_id = c.kernel_id
LEFT JOIN given g ON g.kernel_id = c.kernel_id
LEFT JOIN kernel_name n ON n.function_id = c.function_id
ORDER BY c.kernel_id
