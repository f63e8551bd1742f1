-- Which loads fetch data that was already loaded?
-- A load is redundant in a scope if the same thread, warp, block or grid has loaded the bytes before, with no store to
-- them since. Redundant loads of a thread could stay in a register, those of a block in shared memory. Each scope
-- includes the narrower ones. Of the launches here, `again_*` do it on purpose.
-- Capture: access_truth
SELECT
  n.short_kernel AS kernel, sum(CASE WHEN r.scope = 'grid' THEN r.loads ELSE 0 END) AS loads,
  sum(CASE WHEN r.scope = 'thread' THEN r.redundant_loads ELSE 0 END) AS again_by_thread,
  sum(CASE WHEN r.scope = 'warp' THEN r.redundant_loads ELSE 0 END) AS by_warp,
  sum(CASE WHEN r.scope = 'block' THEN r.redundant_loads ELSE 0 END) AS by_block,
  sum(CASE WHEN r.scope = 'grid' THEN r.redundant_loads ELSE 0 END) AS by_grid
FROM redundant_load r
JOIN kernel_name n ON n.function_id = r.function_id
GROUP BY n.short_kernel
HAVING sum(r.redundant_loads) > 0
ORDER BY by_grid DESC, kernel
LIMIT 8
