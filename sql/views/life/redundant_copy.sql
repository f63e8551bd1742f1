-- One copy of a tensor with the same result as an earlier copy: the source was not written in between.
--
-- Ops of one name copied one tensor to equal types and shapes. A copy is not reported if something may have written the
-- source: an op that writes any tensor of its storage, or a launch with unknown writes.
CREATE VIEW redundant_copy (
  -- The tensor that was copied again.
  source_tensor_id,
  -- Its name.
  source,
  -- The copy.
  tensor_id,
  -- The earlier copy with the same content.
  earlier_tensor_id,
  -- Its element type and shape.
  type,
  -- Its bytes.
  size_bytes,
  -- The op that copied.
  op,
  -- The line that called it. In backward, the line whose gradient it computes.
  line,
  -- Ordinal of the launch that copied.
  ordinal,
  -- Ordinal of the launch that copied before.
  earlier_ordinal,
  -- True if the earlier copy was still allocated.
  is_earlier_live
) AS
WITH copied AS (
  SELECT
    e.source_tensor_id, e.target_tensor_id, e.op_id, e.op, e.line, e.ordinal, t.storage_id, t.span_bytes,
    lag(e.target_tensor_id) OVER turn AS earlier_tensor_id,
    lag(e.ordinal) OVER turn AS earlier_ordinal
  FROM tensor_edge e
  JOIN tensor t ON t.tensor_id = e.target_tensor_id
  WHERE e.kind = 'copy' AND t.op_id = e.op_id
  WINDOW turn AS (PARTITION BY e.source_tensor_id, e.op, t.dtype, t.sizes, t.strides ORDER BY e.ordinal, e.target_tensor_id)
), again AS (
  SELECT c.*, s.storage_id AS source_storage_id
  FROM copied c
  JOIN tensor s ON s.tensor_id = c.source_tensor_id
  WHERE c.earlier_ordinal IS NOT NULL AND c.ordinal IS NOT NULL
), spoilt AS (
  SELECT DISTINCT a.target_tensor_id
  FROM again a
  JOIN object_use u ON u.storage_id = a.source_storage_id
  WHERE u.direction <> 'read' AND u.ordinal >= a.earlier_ordinal AND u.ordinal <= a.ordinal
), lived AS (
  -- The source and the copy of a CUDA graph are allocated at the capture.
  SELECT op_id, min(coalesce(capture_ordinal, ordinal)) AS ordinal FROM launch GROUP BY op_id
)
SELECT
  a.source_tensor_id, x.name, a.target_tensor_id, a.earlier_tensor_id, y.type, a.span_bytes, a.op, a.line, a.ordinal,
  a.earlier_ordinal, e.free_ordinal IS NULL OR e.free_ordinal > v.ordinal
FROM again a
LEFT ANTI JOIN spoilt w ON w.target_tensor_id = a.target_tensor_id
LEFT JOIN target_context x ON x.target = 'tensor' AND x.object_id = a.source_tensor_id
LEFT JOIN target_context y ON y.target = 'tensor' AND y.object_id = a.target_tensor_id
LEFT JOIN tensor d ON d.tensor_id = a.earlier_tensor_id
LEFT JOIN storage e ON e.storage_id = d.storage_id
LEFT JOIN lived v ON v.op_id = a.op_id
