-- What is in no tree
-- Stalls that no tensor bears: memory of which no tensor is known, allocations, and what waits for no memory.
SELECT
  CASE
    WHEN remainder IS NOT NULL THEN remainder
    WHEN target = 'storage' THEN '(memory of which no tensor is known)'
    ELSE '(allocations outside any tensor)'
  END AS remainder,
  sum(samples) AS samples
FROM object_cost
WHERE target IS NULL OR target <> 'tensor'
GROUP BY 1
ORDER BY samples DESC, remainder
