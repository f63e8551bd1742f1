-- Accesses of instructions
-- One instruction of one launch of one capture: sectors of 32 bytes, or bytes, that its requests touch.
SELECT capture, kernel_id, function_id, pc, CAST(sum($column) AS DOUBLE) AS value, 0.0 AS variance
FROM every.pc_tensor
GROUP BY capture, kernel_id, function_id, pc
