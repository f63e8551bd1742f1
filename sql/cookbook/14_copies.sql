-- Which copies are made, how large, and by whom?
-- Copies by kernels are launches; these are those of the driver.
-- Capture: transformer_step
SELECT
  c.kind, o.name AS op, count(*) AS copies, sum(c.size_bytes) AS bytes, min(c.size_bytes) AS smallest,
  max(c.size_bytes) AS largest
FROM memcpy c
LEFT JOIN op o ON o.op_id = c.op_id
GROUP BY c.kind, o.name
ORDER BY bytes DESC, c.kind, o.name
LIMIT 10
