-- One tensor with its properties: name, shape, and the op and line that created it.
CREATE VIEW tensor_context (
  tensor_id,
  -- Its storage.
  storage_id,
  -- Its name, else the name of a tensor that shares its storage (a weight, for its transpose).
  name,
  -- Role in the model: parameter, gradient, buffer, optimizer_state.
  role,
  dtype,
  -- Sizes, and strides if not contiguous.
  shape,
  -- Bytes from the first to past the last element.
  span_bytes,
  -- The op that created it, else the op that allocated its storage, else the first that used it, if that one wrote it:
  -- compiled code allocates outside ops. Else the first that created a tensor in its storage.
  op,
  -- The innermost user line of that op. Null if the tensor is older than the recording.
  birth_line,
  -- In backward, the line whose gradient that op computes.
  birth_forward_line
) AS
WITH named AS (
  SELECT storage_id, min(name) AS name, min(role) AS role FROM tensor WHERE name IS NOT NULL GROUP BY storage_id
), sharing AS (
  SELECT storage_id, min(op_id) AS op_id FROM tensor WHERE op_id IS NOT NULL GROUP BY storage_id
), used AS (
  SELECT
    u.tensor_id, min(u.op_id) AS op_id, first_value(u.direction ORDER BY u.op_id, u.position) AS direction
  FROM op_tensor u
  JOIN tensor t ON t.tensor_id = u.tensor_id
  WHERE t.op_id IS NULL
  GROUP BY u.tensor_id
)
SELECT
  t.tensor_id,
  t.storage_id,
  coalesce(t.name, n.name),
  coalesce(t.role, n.role),
  t.dtype,
  shape(t.sizes, t.strides),
  t.span_bytes,
  o.op,
  o.line,
  o.forward_line
FROM tensor t
LEFT JOIN named n ON n.storage_id = t.storage_id
LEFT JOIN storage s ON s.storage_id = t.storage_id
LEFT JOIN used u ON u.tensor_id = t.tensor_id AND u.direction <> 'in' AND s.alloc_ordinal > 0
LEFT JOIN sharing x ON x.storage_id = t.storage_id AND s.alloc_ordinal > 0
LEFT JOIN op_context o ON o.op_id = coalesce(t.op_id, s.op_id, u.op_id, x.op_id)
