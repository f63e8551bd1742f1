-- Tensors of the forest
-- One tensor: its op, its base, and its cost alone and with its views.
SELECT
  tensor_id, base_tensor_id, tensor, dtype || ' ' || shape AS type, op,
  coalesce(birth_forward_line || ' (grad)', birth_line) AS born_at, stalled_at, is_view, is_contiguous, samples,
  memory_samples, time_ns, tree_samples
FROM tensor_node
ORDER BY depth, tensor_id
