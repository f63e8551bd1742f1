-- Tensors of the forest
-- One tensor: its op, its base, and its cost alone and with its views.
SELECT
  tensor_id, base_tensor_id, tensor, dtype || ' ' || shape AS type, op,
  line_label(birth_line, birth_forward_line) AS born_at, stalled_at, is_view, is_contiguous, samples,
  memory_samples, time_ns, tree_samples
FROM tensor_node
ORDER BY depth, tensor_id
