-- Repeated launches
-- Each launch, and the first one that it repeats: of one kernel, with one grid, from one Python stack.
SELECT
  capture, kernel_id,
  min(kernel_id) OVER (
    PARTITION BY capture, function_id, grid_x, grid_y, grid_z, block_x, block_y, block_z, pystates_hash
  ) AS first_kernel_id
FROM every.launch
