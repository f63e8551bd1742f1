-- One view made by `as_strided` that reaches outside of its base tensor, and that an op was given.
--
-- PyTorch bounds such a view by the storage, not by the tensor: its ops read and write elements that are other tensors'.
CREATE VIEW wide_view (
  -- The view.
  tensor_id,
  -- Its base tensor.
  base_tensor_id,
  -- Their storage.
  storage_id,
  -- Label of its base tensor.
  object,
  -- Its type and shape.
  type,
  -- Shape and strides of the view.
  view_type,
  -- Index of the first element outside, by the strides of its base tensor.
  element,
  -- Bytes from the start of that tensor to the element.
  byte_offset,
  -- Bytes from the view's start to its end that are outside.
  byte_count,
  -- The innermost user line around the call of `as_strided`.
  line,
  -- The op around that call.
  op
) AS
WITH wide AS (
  SELECT
    o.op_id, v.tensor_id, b.tensor_id AS base_tensor_id, b.storage_id, b.element_bytes, b.sizes, b.strides, b.address,
    CAST(greatest(0, TRY_CAST(b.address AS BIGINT) - TRY_CAST(v.address AS BIGINT)) AS BIGINT) AS before_bytes,
    CAST(greatest(0, TRY_CAST(v.address + v.span_bytes AS BIGINT) - TRY_CAST(b.address + b.span_bytes AS BIGINT)) AS BIGINT) AS past_bytes,
    CASE WHEN v.address < b.address THEN v.address ELSE b.address + b.span_bytes END AS first_address
  FROM op o
  JOIN op_tensor i ON i.op_id = o.op_id AND i.direction = 'in'
  JOIN op_tensor r ON r.op_id = o.op_id AND r.direction = 'out'
  JOIN tensor b ON b.tensor_id = i.tensor_id
  JOIN tensor v ON v.tensor_id = r.tensor_id AND v.storage_id = b.storage_id
  WHERE o.name LIKE 'aten::as_strided%'
), given AS (
  SELECT DISTINCT w.tensor_id
  FROM wide w
  JOIN op_tensor d ON d.tensor_id = w.tensor_id AND d.op_id <> w.op_id
)
SELECT
  w.tensor_id, w.base_tensor_id, w.storage_id, c.label, c.type, v.type,
  element_index(w.first_address, w.address, w.element_bytes, w.sizes, w.strides),
  TRY_CAST(w.first_address AS BIGINT) - TRY_CAST(w.address AS BIGINT), w.before_bytes + w.past_bytes, p.source_line, p.op
FROM wide w
JOIN given g ON g.tensor_id = w.tensor_id
LEFT JOIN op_context p ON p.op_id = w.op_id
LEFT JOIN target_context c ON c.target = 'tensor' AND c.object_id = w.base_tensor_id
LEFT JOIN target_context v ON v.target = 'tensor' AND v.object_id = w.tensor_id
WHERE w.before_bytes + w.past_bytes > 0
