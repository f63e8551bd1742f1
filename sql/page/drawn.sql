-- Tensors whose accesses are drawn
-- Those that warps waited for most. Equal tensors are one: of them, the one that was waited for most is drawn.
WITH alike AS (
  SELECT
    object, type, op, born_at,
    first_value(object_id ORDER BY samples DESC, object_id) AS tensor_id,
    max(samples) AS samples,
    count(*) AS equal_tensors,
    sum(samples) AS equal_samples
  FROM object_cost
  WHERE target = 'tensor'
  GROUP BY object, type, op, born_at
)
SELECT tensor_id, object AS tensor, type, op, born_at, samples, equal_tensors, equal_samples
FROM alike
ORDER BY equal_samples DESC, tensor_id
LIMIT $top
