-- Tensors with a heat map
-- Tensors ranked by stall samples, then by accesses. Tensors are grouped by name, or op, line, shape, and the
-- costliest of a group is drawn. accesses: by lanes, in launches with recorded accesses.
WITH cost AS (
  SELECT object_id, samples FROM object_cost WHERE target = 'tensor'
), touched AS (
  SELECT tensor_id, sum(lane_count) AS accesses FROM pc_tensor WHERE target = 'tensor' GROUP BY tensor_id
), alike AS (
  SELECT
    n.label AS name, n.family_type AS type, n.op, n.born_at,
    first_value(n.object_id ORDER BY coalesce(c.samples, 0.0) DESC, coalesce(t.accesses, 0) DESC, n.object_id)
      AS tensor_id,
    count(*) AS equal_tensors,
    sum(coalesce(c.samples, 0.0)) AS samples,
    sum(coalesce(t.accesses, 0)) AS accesses
  FROM target_context n
  LEFT JOIN cost c ON c.object_id = n.object_id
  LEFT JOIN touched t ON t.tensor_id = n.object_id
  WHERE n.target = 'tensor' AND (c.object_id IS NOT NULL OR t.tensor_id IS NOT NULL)
  GROUP BY n.name, n.label, n.family_type, n.op, n.born_at
)
SELECT tensor_id AS drawn_tensor_id, name AS tensor, type, op, born_at, equal_tensors, samples, accesses
FROM alike
ORDER BY samples DESC, accesses DESC, drawn_tensor_id
LIMIT $top
