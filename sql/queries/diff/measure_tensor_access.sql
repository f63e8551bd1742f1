-- Accesses of tensors
-- One tensor in one launch of one capture: sectors of 32 bytes, or bytes, that requests touch of it. Accesses outside
-- tensors have rows too: all rows add up to everything touched.
SELECT
  capture, kernel_id,
  CASE WHEN tensor_id IS NULL THEN CAST(target AS VARCHAR) ELSE 'tensor' END AS charge,
  tensor_id,
  CAST(sum($column) AS DOUBLE) AS value,
  0.0 AS variance
FROM every.pc_tensor
GROUP BY 1, 2, 3, 4
