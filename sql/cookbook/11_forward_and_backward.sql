-- What does an op cost forward, and what its gradient?
-- Launches of backward are led back to the forward op whose gradient they compute.
-- Capture: transformer_step
WITH cost AS (
  SELECT
    coalesce(f.name, o.name) AS op, o.phase, s.samples
  FROM launch l
  JOIN op o ON o.op_id = l.op_id
  LEFT JOIN op f ON f.op_id = o.forward_op_id
  JOIN sample_cost s ON s.kernel_id = l.kernel_id
  WHERE o.phase IN ('forward', 'backward')
)
SELECT
  op,
  round(sum(CASE WHEN phase = 'forward' THEN samples ELSE 0.0 END), 1) AS forward_samples,
  round(sum(CASE WHEN phase = 'backward' THEN samples ELSE 0.0 END), 1) AS backward_samples,
  round(sum(CASE WHEN phase = 'backward' THEN samples ELSE 0.0 END)
    / nullif(sum(CASE WHEN phase = 'forward' THEN samples ELSE 0.0 END), 0.0), 1) AS backward_by_forward
FROM cost
GROUP BY op
ORDER BY sum(samples) DESC, op
LIMIT 10
