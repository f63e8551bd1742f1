-- The cost of one tensor with all its views: one tree of the transformation forest that kernels waited for.
--
-- Storages without a known tensor, allocations and unattributed stalls are rows too. All rows add up to the samples.
CREATE VIEW tree_cost (
  -- The root tensor. Null for other objects.
  root_tensor_id,
  -- Its name, or that of a storage or an allocation. Null for unattributed stalls.
  object,
  -- Label of unattributed stalls. Null for an object.
  remainder,
  -- Tensors of the tree that kernels waited for.
  tensor_count,
  -- Samples attributed to the complete tree.
  samples,
  -- Samples of the root.
  root_samples,
  -- Samples of contiguous views.
  contiguous_view_samples,
  -- Samples of non-contiguous views.
  noncontiguous_view_samples,
  share,
  memory_samples,
  time_ns
) AS
WITH rooted AS (
  SELECT tensor_id, first_value(ancestor_tensor_id ORDER BY distance DESC) AS root_tensor_id, max(distance) AS depth
  FROM tensor_tree
  GROUP BY tensor_id
), placed AS (
  SELECT
    c.*, r.root_tensor_id, r.depth, t.is_contiguous,
    CASE WHEN r.root_tensor_id IS NULL THEN c.object_id END AS other_id,
    CASE WHEN r.root_tensor_id IS NULL THEN c.object END AS other
  FROM object_cost c
  LEFT JOIN rooted r ON c.target = 'tensor' AND r.tensor_id = c.object_id
  LEFT JOIN tensor t ON t.tensor_id = r.tensor_id
), summed AS (
  SELECT
    root_tensor_id, other_id, other, remainder,
    sum(CASE WHEN root_tensor_id IS NOT NULL THEN 1 ELSE 0 END) AS tensor_count,
    sum(samples) AS samples,
    sum(CASE WHEN depth = 0 THEN samples ELSE 0.0 END) AS root_samples,
    sum(CASE WHEN depth > 0 AND is_contiguous THEN samples ELSE 0.0 END) AS contiguous_view_samples,
    sum(CASE WHEN depth > 0 AND NOT is_contiguous THEN samples ELSE 0.0 END) AS noncontiguous_view_samples,
    sum(share) AS share,
    sum(memory_samples) AS memory_samples,
    sum(time_ns) AS time_ns
  FROM placed
  GROUP BY root_tensor_id, other_id, other, remainder
)
SELECT
  s.root_tensor_id, coalesce(t.name, s.other), s.remainder, s.tensor_count, s.samples, s.root_samples,
  s.contiguous_view_samples, s.noncontiguous_view_samples, s.share, s.memory_samples, s.time_ns
FROM summed s
LEFT JOIN target_context t ON t.target = 'tensor' AND t.object_id = s.root_tensor_id
