-- Launches in order
-- Each launch of the program with its thread, kernel, shape and arguments. Numbers of a launch are those of the capture.
WITH threaded AS (
  SELECT run_id, kernel_id, min(thread_id) AS thread_id FROM launch_run GROUP BY run_id, kernel_id
)
SELECT
  l.kernel_id, CAST(coalesce(r.rank, 0) AS BIGINT) AS rank, CAST(coalesce(t.thread_id, 0) AS BIGINT) AS thread_id,
  l.function_id, coalesce(f.demangled_name, '') AS name, coalesce(n.short_kernel, f.demangled_name, 'unknown') AS kernel,
  'grid ' || CAST(l.grid_x AS VARCHAR) || ' x ' || CAST(l.grid_y AS VARCHAR) || ' x ' || CAST(l.grid_z AS VARCHAR)
    || ', blocks of ' || CAST(l.block_x AS VARCHAR) || ' x ' || CAST(l.block_y AS VARCHAR) || ' x ' || CAST(l.block_z AS VARCHAR)
    || coalesce(', clusters of ' || CAST(l.cluster_x AS VARCHAR) || ' x ' || CAST(l.cluster_y AS VARCHAR) || ' x '
      || CAST(l.cluster_z AS VARCHAR), '')
    || CASE WHEN l.dynamic_shared_bytes > 0 THEN ', ' || CAST(l.dynamic_shared_bytes AS VARCHAR) || ' bytes of shared memory'
      ELSE '' END AS shape,
  encode(p.bytes, 'hex') AS parameters, p.offsets, p.sizes, line_label(c.line, c.forward_line) AS line, c.op,
  b.kernel_id IS NOT NULL AND b.refusal IS NULL AS is_bundled
FROM launch l
JOIN launch_context c ON c.kernel_id = l.kernel_id
LEFT JOIN run r ON r.run_id = l.run_id
LEFT JOIN threaded t ON t.run_id = l.run_id AND t.kernel_id = l.kernel_id
LEFT JOIN function f ON f.function_id = l.function_id
LEFT JOIN kernel_name n ON n.function_id = l.function_id
LEFT JOIN launch_parameter p ON p.kernel_id = l.kernel_id
LEFT JOIN bundle b ON b.kernel_id = l.kernel_id
ORDER BY l.kernel_id
