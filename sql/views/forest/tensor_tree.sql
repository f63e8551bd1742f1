-- One tensor and one of its ancestors by view relations, at any distance, including itself.
--
-- A tensor's base is the one that PyTorch reports. If it reports none, the base is an argument of the op that created
-- the tensor in the same storage (`aten::_unsafe_view`). Identity is that of `tensor`: storage, lifetime and geometry,
-- never a reused address.
CREATE VIEW tensor_tree (
  tensor_id,
  -- An ancestor of the view, or the tensor itself.
  ancestor_tensor_id,
  -- Views from that one to the tensor: 0 for itself.
  distance
) AS
WITH RECURSIVE argument AS (
  SELECT t.tensor_id, max(a.tensor_id) AS base_tensor_id
  FROM tensor t
  JOIN op_tensor d ON d.op_id = t.op_id
  JOIN tensor a ON a.tensor_id = d.tensor_id AND a.storage_id = t.storage_id
  -- Only tensors that existed before: no tensor is its own base.
  WHERE t.base_tensor_id IS NULL AND d.direction <> 'out' AND a.tensor_id < t.tensor_id
  GROUP BY t.tensor_id
), based AS (
  SELECT t.tensor_id, coalesce(t.base_tensor_id, a.base_tensor_id) AS base_tensor_id
  FROM tensor t
  LEFT JOIN argument a ON a.tensor_id = t.tensor_id
), above AS (
  SELECT tensor_id, tensor_id AS ancestor_tensor_id, 0 AS distance FROM tensor
  UNION ALL
  -- A capture whose tensors are views of each other in a cycle terminates, too.
  SELECT u.tensor_id, b.base_tensor_id, u.distance + 1
  FROM above u
  JOIN based b ON b.tensor_id = u.ancestor_tensor_id
  WHERE b.base_tensor_id IS NOT NULL AND u.distance < 255
)
SELECT tensor_id, ancestor_tensor_id, distance FROM above
