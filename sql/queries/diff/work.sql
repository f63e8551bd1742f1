-- Work and speed
-- The change of GPU time, in two parts: other numbers of launches of the same kernels with the same grid and block (work),
-- and everything else, such as slower launches and other kernels. span: from the first to the last work of a GPU, the
-- longest of a timeline.
WITH unit AS (
  -- Divisors, as in the comparison.
  SELECT
    l.capture,
    CAST(CASE '$per' WHEN 'step' THEN greatest(count(DISTINCT o.program_step), 1) ELSE 1 END AS DOUBLE) AS unit
  FROM every.launch l
  LEFT JOIN every.launch_phase o ON o.capture = l.capture AND o.kernel_id = l.kernel_id
  GROUP BY l.capture
), kind AS (
  SELECT
    l.capture, f.demangled_name AS kernel, l.grid_x, l.grid_y, l.grid_z, l.block_x, l.block_y, l.block_z,
    count(*) / max(u.unit) AS launches, sum(m.time) / max(u.unit) AS time
  FROM every.launch l
  JOIN diff_launch m ON m.capture = l.capture AND m.kernel_id = l.kernel_id
  JOIN every.function f ON f.capture = l.capture AND f.function_id = l.function_id
  JOIN unit u ON u.capture = l.capture
  GROUP BY l.capture, f.demangled_name, l.grid_x, l.grid_y, l.grid_z, l.block_x, l.block_y, l.block_z
), total AS (
  SELECT capture, sum(time) AS time FROM kind GROUP BY capture
), same AS (
  SELECT x.capture, sum((x.launches - b.launches) * b.time / b.launches) AS work
  FROM kind b
  JOIN kind x
    ON x.kernel = b.kernel AND x.grid_x = b.grid_x AND x.grid_y = b.grid_y AND x.grid_z = b.grid_z
    AND x.block_x = b.block_x AND x.block_y = b.block_y AND x.block_z = b.block_z
  WHERE b.capture = '$base' AND x.capture <> '$base'
  GROUP BY x.capture
), span AS (
  SELECT capture, CAST(max(span_ns) AS DOUBLE) AS span FROM every.device_time GROUP BY capture
)
SELECT
  x.capture, coalesce(s.work, 0.0) / nullif(b.time, 0.0) AS work_share, (x.time - b.time) / nullif(b.time, 0.0) AS change_share,
  sb.span AS base_span, sx.span AS span
FROM total x
JOIN total b ON b.capture = '$base'
LEFT JOIN same s ON s.capture = x.capture
LEFT JOIN span sb ON sb.capture = '$base'
LEFT JOIN span sx ON sx.capture = x.capture
WHERE x.capture <> '$base'
ORDER BY x.capture
