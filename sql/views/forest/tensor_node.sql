-- One tensor as a node of the transformation forest, with what it cost and what its views cost with it.
--
-- A tree is a tensor that is no view, with its views and theirs. `tensor_edge` has what leads from tensor to tensor.
-- Tensors that cost nothing are rows too; `samples` of all rows and of the rows of `object_cost` that are no tensor are
-- the samples taken.
CREATE VIEW tensor_node (
  -- The tensor.
  tensor_id,
  -- The root of its tree: itself where it is no view.
  root_tensor_id,
  -- The tensor that it is a view of, as in `tensor_tree`; null where it is no view.
  base_tensor_id,
  -- How that is known: view (PyTorch says so), storage (the op that made it returned memory of its argument).
  base_evidence,
  -- Views from the root to it: 0 for the root.
  depth,
  -- Its storage.
  storage_id,
  -- Its name; what made it where it has none.
  tensor,
  -- What it is to the model.
  role,
  -- Element type.
  dtype,
  -- Sizes, and strides where it is not contiguous.
  shape,
  -- Whether it is a view of another.
  is_view,
  -- Whether its elements lie in the order of its dimensions.
  is_contiguous,
  -- Bytes from the first to past the last element.
  span_bytes,
  -- The op that made it.
  op,
  -- The line of that op.
  birth_line,
  -- In backward, the line whose gradient that op computes.
  birth_forward_line,
  -- Dotted path of the module that it was made in.
  module_path,
  -- The part of the training step that it was made in.
  phase,
  -- Optimizer steps finished before it was made.
  step,
  -- The line whose kernels stalled most on it; in backward, the line whose gradient that is.
  stalled_at,
  -- Samples charged to it.
  samples,
  -- Those of memory stalls.
  memory_samples,
  -- Estimated time of the GPU, nanoseconds.
  estimated_ns,
  -- Samples charged to it, to its views and to theirs.
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
  -- What it costs itself, and with all that are views of it.
  SELECT
    t.ancestor_tensor_id AS tensor_id,
    max(CASE WHEN t.distance = 0 THEN c.stalled_at END) AS stalled_at,
    max(CASE WHEN t.distance = 0 THEN c.samples END) AS samples,
    max(CASE WHEN t.distance = 0 THEN c.memory_samples END) AS memory_samples,
    max(CASE WHEN t.distance = 0 THEN c.estimated_ns END) AS estimated_ns,
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
  coalesce(c.samples, 0.0), coalesce(c.memory_samples, 0.0), c.estimated_ns, coalesce(c.tree_samples, 0.0)
FROM placed p
JOIN tensor t ON t.tensor_id = p.tensor_id
LEFT JOIN tensor_context n ON n.tensor_id = p.tensor_id
LEFT JOIN target_context x ON x.target = 'tensor' AND x.object_id = p.tensor_id
LEFT JOIN op_context o ON o.op_id = t.op_id
LEFT JOIN cost c ON c.tensor_id = p.tensor_id
