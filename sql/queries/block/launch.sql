-- A launch and its blocks
-- One launch: its kernel, the blocks of its grid, the warps of a block, and the blocks whose accesses are in the capture. nearest: of these, the one closest
-- to the block.
WITH held AS (
  SELECT
    count(DISTINCT block) AS held_blocks, first_value(block ORDER BY abs(CAST(block AS BIGINT) - $block), block) AS nearest
  FROM memory_access
  WHERE kernel_id = $kernel
)
SELECT
  l.kernel_id, coalesce(n.short_kernel, f.demangled_name, 'unknown kernel') AS kernel,
  CAST(l.grid_x AS BIGINT UNSIGNED) * l.grid_y * l.grid_z AS blocks,
  (CAST(l.block_x AS BIGINT UNSIGNED) * l.block_y * l.block_z + 31) / 32 AS warps, l.accesses_of,
  CASE WHEN l.kernel_id = $kernel THEN h.held_blocks END AS held_blocks, CASE WHEN l.kernel_id = $kernel THEN h.nearest END AS nearest
FROM launch l
CROSS JOIN held h
LEFT JOIN function f ON f.function_id = l.function_id
LEFT JOIN kernel_name n ON n.function_id = l.function_id
WHERE l.kernel_id = $kernel OR l.kernel_id = (SELECT max(kernel_id) FROM launch)
ORDER BY l.kernel_id = $kernel DESC
LIMIT 1
