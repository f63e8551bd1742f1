-- One target of accesses, with its name: a tensor, a storage or a driver allocation.
CREATE VIEW target_context (
  -- Type of the target, as in `pc_tensor`: tensor, storage, outside any tensor.
  target,
  -- Its tensor_id, storage_id or allocation_id.
  object_id,
  -- Its name, else a label made from its op or size.
  name,
  -- Element type and shape of a tensor, bytes of everything else.
  type,
  -- The op that made it.
  op,
  -- The line of that op. In backward, the line whose gradient it computes.
  born_at
) AS
SELECT
  'tensor', tensor_id,
  CASE
    WHEN name IS NULL THEN coalesce(op || '()', 'unnamed')
    WHEN role IN ('gradient', 'optimizer_state') THEN replace(role, '_', ' ') || ' of ' || name
    ELSE name
  END,
  dtype || ' ' || shape,
  op,
  coalesce(birth_forward_line || ' (grad)', birth_line)
FROM tensor_context
UNION ALL
SELECT
  'storage', s.storage_id,
  coalesce('memory of ' || o.op, 'memory outside tensors'),
  CAST(s.size_bytes AS VARCHAR) || ' bytes',
  o.op,
  o.source_line
FROM storage s
LEFT JOIN op_context o ON o.op_id = s.op_id
UNION ALL
SELECT
  'outside any tensor', allocation_id,
  -- The number of the allocation in its run.
  'allocation ' || CAST(allocation_id AS VARCHAR),
  CAST(size_bytes AS VARCHAR) || ' bytes',
  NULL,
  NULL
FROM device_allocation
