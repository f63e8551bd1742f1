-- Tensor
-- One tensor: its label, type, and the op and line that created it.
SELECT label, type, op, born_at
FROM target_context
WHERE target = 'tensor' AND object_id = $tensors
