-- Views of tensors, as forest.txt
-- Each tensor and its base: nested, as Tree := INT ":" "{" Tree* "}" INT.
SELECT
  tensor_id,
  max(CASE WHEN distance = 1 THEN ancestor_tensor_id END) AS base_tensor_id
FROM tensor_tree
GROUP BY tensor_id
ORDER BY max(distance), tensor_id
