-- Cost outside the trees
-- Unattributed stalls: memory outside tensors, allocations, and waits that are not for memory.
SELECT
  CASE
    WHEN remainder IS NOT NULL THEN remainder
    WHEN target = 'storage' THEN '(storages without a known tensor)'
    ELSE '(allocations outside tensors)'
  END AS remainder,
  sum(samples) AS samples
FROM object_cost
WHERE target IS NULL OR target <> 'tensor'
GROUP BY 1
ORDER BY samples DESC, remainder
