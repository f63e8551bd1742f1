-- Kernels
-- Kernels that can be shown, hottest first.
SELECT
  k.function_id, n.short_kernel AS kernel, k.kernel AS full_name, k.launch_count AS launches, k.samples, k.share
FROM kernel_cost k
LEFT JOIN kernel_name n ON n.function_id = k.function_id
ORDER BY k.samples DESC, k.launch_count DESC, k.kernel, k.function_id
