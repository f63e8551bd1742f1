-- What does an op cost forward, and what its gradient?
-- Launches of backward are led back to the forward op, at its line, whose gradient they compute; a gradient far
-- dearer than twice its op is worth a look. Ops of the optimizer have neither.
-- Capture: transformer_step
SELECT
  op, line, round(forward_samples, 1) AS forward_samples, round(backward_samples, 1) AS backward_samples,
  round(ratio, 2) AS backward_by_forward
FROM forward_backward
ORDER BY forward_samples + backward_samples DESC, op, line
LIMIT 8
