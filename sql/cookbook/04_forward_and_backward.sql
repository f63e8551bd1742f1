-- Which ops cost most in forward, and which in backward?
-- Launches in backward are attributed to the line of the forward op whose gradient they compute. A gradient that costs
-- far more than twice its op is worth a look. Optimizer ops have neither.
-- Capture: transformer_step
SELECT
  op, line, round(forward_samples, 1) AS forward_samples, round(backward_samples, 1) AS backward_samples,
  round(ratio, 2) AS backward_by_forward
FROM forward_backward
ORDER BY forward_samples + backward_samples DESC, op, line
LIMIT 8
