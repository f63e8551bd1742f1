-- What would .contiguous() save?
-- sectors are the 32-byte pieces that its accesses move, ideal those that they would move if neighbours lay side by
-- side. At most the part of its samples beyond the ideal is saved; the copy that makes it contiguous costs again.
-- Capture: inference_views
WITH moved AS (
  SELECT
    p.tensor_id, sum(p.share * a.sectors) AS sectors, sum(p.share * (a.sectors - a.excess_sectors)) AS ideal
  FROM access_pattern a
  JOIN pc_tensor_share p ON p.kernel_id = a.kernel_id AND p.function_id = a.function_id AND p.pc = a.pc
  GROUP BY p.tensor_id
)
SELECT
  coalesce(t.name, 'result of ' || t.op) AS tensor, t.shape, t.stalled_line, round(t.samples, 1) AS samples,
  round(m.sectors) AS sectors, round(m.ideal) AS ideal,
  round(t.samples * (1.0 - m.ideal / m.sectors), 1) AS saves_at_most
FROM tensor_stall_cost t
JOIN moved m ON m.tensor_id = t.tensor_id
WHERE t.shape LIKE '% strides %'
ORDER BY saves_at_most DESC, tensor
LIMIT 5
