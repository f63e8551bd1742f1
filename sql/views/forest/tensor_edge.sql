-- One relation between two tensors by one op: the source of a tensor, or a write into it.
--
-- Arguments that are lists count. In lists of equal length each element belongs to its own counterpart
-- (`_foreach_add_`), otherwise each to all (`stack`). For Triton kernels, the written arguments are those that launches
-- were observed to write. An op that returns an argument makes no edge, nor does one that only encloses the op that
-- created the tensor.
CREATE VIEW tensor_edge (
  -- The tensor that was read.
  source_tensor_id,
  -- The tensor that was created or written. The source itself if an op writes it and reads no other.
  target_tensor_id,
  -- view (of the source's memory), copy (the same elements in other memory), in_place (written by an op that reads the
  -- source), op (created by an op that reads the source).
  kind,
  -- The op. Null for a view older than the recording.
  op_id,
  -- Its name.
  op,
  -- The line that called it. In backward, the line whose gradient it computes.
  line,
  -- Ordinal of its first launch. Null if it launches none.
  ordinal,
  -- True if source and target lie in different trees, as in `tensor_node`.
  is_cross_tree
) AS
WITH listed AS (
  SELECT op_id, direction, position, element, tensor_id, count(*) OVER (PARTITION BY op_id, direction, position) AS size
  FROM op_tensor
), made AS (
  SELECT a.tensor_id AS source_tensor_id, r.tensor_id AS target_tensor_id, r.op_id, s.storage_id AS source_storage_id,
    t.storage_id AS target_storage_id
  FROM listed r
  JOIN tensor t ON t.tensor_id = r.tensor_id AND t.op_id = r.op_id
  JOIN listed a ON a.op_id = r.op_id
  JOIN tensor s ON s.tensor_id = a.tensor_id
  WHERE r.direction = 'out' AND a.direction <> 'out' AND a.tensor_id <> r.tensor_id
    AND (a.size <> r.size OR a.element = r.element)
), written AS (
  SELECT a.tensor_id AS source_tensor_id, w.tensor_id AS target_tensor_id, w.op_id
  FROM listed w
  JOIN listed a ON a.op_id = w.op_id
  WHERE w.direction = 'inout' AND a.direction <> 'out' AND a.tensor_id <> w.tensor_id
    AND (a.size <> w.size OR a.element = w.element)
), observed AS (
  -- Triton kernels do not declare their outputs. Observed writes replace the declaration.
  SELECT DISTINCT a.tensor_id AS source_tensor_id, w.tensor_id AS target_tensor_id, w.op_id
  FROM (
    SELECT DISTINCT l.op_id, p.tensor_id
    FROM op o
    JOIN launch l ON l.op_id = o.op_id
    JOIN pc_tensor_part p ON p.kernel_id = l.kernel_id
    WHERE o.kind = 'triton' AND p.kind IN ('write', 'atomic')
  ) w
  JOIN op_tensor d ON d.op_id = w.op_id AND d.tensor_id = w.tensor_id
  JOIN op_tensor a ON a.op_id = w.op_id AND a.tensor_id <> w.tensor_id
), alone AS (
  SELECT w.tensor_id AS source_tensor_id, w.tensor_id AS target_tensor_id, w.op_id
  FROM listed w
  LEFT ANTI JOIN written r ON r.op_id = w.op_id AND r.target_tensor_id = w.tensor_id
  WHERE w.direction = 'inout'
), tree AS (
  SELECT
    tensor_id,
    first_value(ancestor_tensor_id ORDER BY distance DESC) AS root_tensor_id,
    max(CASE WHEN distance = 1 THEN ancestor_tensor_id END) AS base_tensor_id
  FROM tensor_tree
  GROUP BY tensor_id
), edge AS (
  SELECT t.base_tensor_id AS source_tensor_id, t.tensor_id AS target_tensor_id, v.op_id, 'view' AS relation
  FROM tree t
  JOIN tensor v ON v.tensor_id = t.tensor_id
  WHERE t.base_tensor_id IS NOT NULL
  UNION ALL
  SELECT source_tensor_id, target_tensor_id, op_id, 'op'
  FROM made
  -- A result in the same storage is a view, or the unchanged argument.
  WHERE source_storage_id <> target_storage_id
  UNION ALL
  SELECT source_tensor_id, target_tensor_id, op_id, 'in_place' FROM written
  UNION ALL
  SELECT source_tensor_id, target_tensor_id, op_id, 'in_place' FROM alone
  UNION ALL
  SELECT source_tensor_id, target_tensor_id, op_id, 'in_place' FROM observed
), first_launch AS (
  SELECT op_id, min(ordinal) AS ordinal FROM launch GROUP BY op_id
)
SELECT DISTINCT
  e.source_tensor_id, e.target_tensor_id,
  CASE
    WHEN e.relation <> 'view' AND e.source_tensor_id <> e.target_tensor_id AND regexp_like(
      o.op, '^aten::(copy_|_copy_from|_to_copy|to|clone|contiguous|lift_fresh_copy|_foreach_copy_|[a-z_]+_copy)(\.|$)'
    ) THEN 'copy'
    ELSE e.relation
  END,
  e.op_id, o.op, o.source_line, l.ordinal,
  a.root_tensor_id <> b.root_tensor_id
FROM edge e
JOIN tree a ON a.tensor_id = e.source_tensor_id
JOIN tree b ON b.tensor_id = e.target_tensor_id
LEFT JOIN op_context o ON o.op_id = e.op_id
LEFT JOIN first_launch l ON l.op_id = e.op_id
