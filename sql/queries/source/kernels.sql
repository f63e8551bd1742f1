-- Kernels
-- Kernels that can be shown, hottest first.
SELECT function_id, kernel, launch_count AS launches, samples, share
FROM kernel_cost
ORDER BY samples DESC, launch_count DESC, kernel, function_id
