-- Kernels of lines
-- Kernels that each line launched, by samples, then by launches. In backward, the line whose gradient they compute.
SELECT
  coalesce(l.forward_line, l.line) AS line, l.function_id, coalesce(sum(c.samples), 0.0) AS samples, count(*) AS launches
FROM launch_context l
LEFT JOIN (SELECT kernel_id, sum(samples) AS samples FROM sample_cost GROUP BY kernel_id) c ON c.kernel_id = l.kernel_id
WHERE coalesce(l.forward_line, l.line) IS NOT NULL
GROUP BY coalesce(l.forward_line, l.line), l.function_id
ORDER BY samples DESC, launches DESC, line, function_id
LIMIT $top
