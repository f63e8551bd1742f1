-- Why do the warps of my costliest kernels stall?
-- One row is a stall reason with 5 % or more of a kernel's samples. is_memory: stalls are attributed to tensors.
-- `selected` is not a stall: the warp issued an instruction.
-- Capture: inference_views
SELECT
  n.short_kernel AS kernel, s.stall_reason AS reason, s.is_memory, round(s.samples, 1) AS reason_samples,
  round(100.0 * s.share, 1) AS percent
FROM kernel_stall s
JOIN kernel_name n ON n.function_id = s.function_id
JOIN kernel_cost k ON k.function_id = s.function_id
WHERE s.share >= 0.05
ORDER BY k.samples DESC, s.share DESC, reason
LIMIT 12
