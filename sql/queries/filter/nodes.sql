-- Tensors of some launches
-- The columns of `tensor_node`, with the costs of the launches that a filter chooses.
WITH tree AS (
  SELECT t.ancestor_tensor_id AS tensor_id, sum(c.samples) AS samples
  FROM tensor_tree t
  JOIN object_cost c ON c.target = 'tensor' AND c.object_id = t.tensor_id
  GROUP BY t.ancestor_tensor_id
)
SELECT
  n.tensor_id, n.root_tensor_id, n.base_tensor_id, n.base_evidence, n.depth, n.storage_id, n.tensor, n.role, n.dtype,
  n.shape, n.is_view, n.is_contiguous, n.span_bytes, n.op, n.birth_line, n.birth_forward_line, n.module_path, n.phase,
  n.step, c.stalled_at, coalesce(c.samples, 0.0) AS samples, coalesce(c.memory_samples, 0.0) AS memory_samples,
  c.time_ns, coalesce(t.samples, 0.0) AS tree_samples
FROM tensor_node n
LEFT JOIN object_cost c ON c.target = 'tensor' AND c.object_id = n.tensor_id
LEFT JOIN tree t ON t.tensor_id = n.tensor_id
