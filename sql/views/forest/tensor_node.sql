-- One tensor as a node of the transformation forest, with its own cost and the cost of its views.
--
-- A tree is a tensor that is not a view, with its views and their views. `tensor_edge` has the relations between
-- tensors. Tensors without cost are rows too. `samples` of all rows and of the non-tensor rows of `object_cost` add up
-- to the samples.
CREATE VIEW tensor_node (
  tensor_id,
  -- The root of its tree: itself if it is not a view.
  root_tensor_id,
  -- Its base tensor, as in `tensor_tree`. Null if it is not a view.
  base_tensor_id,
  -- Evidence for the base: view (reported by PyTorch), storage (the op that created it returned memory of its
  -- argument).
  base_evidence,
  -- Views from the root to it: 0 for the root.
  depth,
  -- Its storage.
  storage_id,
  -- Its name, else a label made from its op or size.
  tensor,
  -- Role in the model.
  role,
  dtype,
  -- Sizes, and strides if not contiguous.
  shape,
  -- True if it is a view of another tensor.
  is_view,
  -- True if its elements lie in the order of its dimensions.
  is_contiguous,
  -- Bytes from the first to past the last element.
  span_bytes,
  -- The op that made it.
  op,
  -- The line of that op.
  birth_line,
  -- In backward, the line whose gradient that op computes.
  birth_forward_line,
  -- Dotted path of the module that created it.
  module_path,
  -- The phase of the training step that created it.
  phase,
  -- Optimizer steps completed before its creation.
  step,
  -- The line whose kernels waited most for it. In backward, the line whose gradient that is.
  stalled_at,
  -- Samples attributed to it.
  samples,
  memory_samples,
  time_ns,
  -- Samples attributed to it, to its views and to their views.
  tree_samples
) AS
WITH placed AS (
  SELECT
    tensor_id,
    first_value(ancestor_tensor_id ORDER BY distance DESC) AS root_tensor_id,
    max(CASE WHEN distance = 1 THEN ancestor_tensor_id END) AS base_tensor_id,
    max(distance) AS depth
  FROM tensor_tree
  GROUP BY tensor_id
), cost AS (
  -- Its own cost, and the cost with all its views.
  SELECT
    t.ancestor_tensor_id AS tensor_id,
    max(CASE WHEN t.distance = 0 THEN c.stalled_at END) AS stalled_at,
    max(CASE WHEN t.distance = 0 THEN c.samples END) AS samples,
    max(CASE WHEN t.distance = 0 THEN c.memory_samples END) AS memory_samples,
    max(CASE WHEN t.distance = 0 THEN c.time_ns END) AS time_ns,
    sum(c.samples) AS tree_samples
  FROM tensor_tree t
  LEFT JOIN (SELECT * FROM object_cost WHERE target = 'tensor') c ON c.object_id = t.tensor_id
  GROUP BY t.ancestor_tensor_id
)
SELECT
  p.tensor_id, p.root_tensor_id, p.base_tensor_id,
  CASE WHEN t.base_tensor_id IS NOT NULL THEN 'view' WHEN p.base_tensor_id IS NOT NULL THEN 'storage' END,
  p.depth, t.storage_id,
  coalesce(x.name, 'unnamed'), coalesce(n.role, t.role), t.dtype, n.shape, p.depth > 0, t.is_contiguous, t.span_bytes,
  n.op, n.birth_line, n.birth_forward_line, o.module_path, o.phase, o.step, c.stalled_at,
  coalesce(c.samples, 0.0), coalesce(c.memory_samples, 0.0), c.time_ns, coalesce(c.tree_samples, 0.0)
FROM placed p
JOIN tensor t ON t.tensor_id = p.tensor_id
LEFT JOIN tensor_context n ON n.tensor_id = p.tensor_id
LEFT JOIN target_context x ON x.target = 'tensor' AND x.object_id = p.tensor_id
LEFT JOIN op_context o ON o.op_id = t.op_id
LEFT JOIN cost c ON c.tensor_id = p.tensor_id
