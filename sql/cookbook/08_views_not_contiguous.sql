-- Which non-contiguous views are costly, and how much would .contiguous() save?
-- sectors are the 32-byte sectors that its accesses move, ideal the fewest that hold their bytes. saves_at_most is the
-- share of its samples beyond the ideal. The copy that makes it contiguous has a cost of its own. tree_percent is the
-- cost of the tensor at the root of the chain with all its views.
-- Capture: inference_views
SELECT
  v.chain, v.type, v.born_at, round(v.samples, 1) AS samples, round(v.base_samples, 1) AS base_samples,
  v.sectors, v.ideal_sectors AS ideal,
  round(v.samples * (1.0 - CAST(v.ideal_sectors AS DOUBLE) / v.sectors), 1) AS saves_at_most,
  round(100.0 * t.share, 1) AS tree_percent
FROM view_cost v
JOIN tree_cost t ON t.root_tensor_id = v.root_tensor_id
WHERE NOT v.is_contiguous AND v.sectors > 0
ORDER BY saves_at_most DESC, v.tensor_id
LIMIT 5
