-- Relations between tensors
-- Sources of a tensor and writes into it, in addition to its view relations.
SELECT source_tensor_id, target_tensor_id, kind, op, line, count(*) AS calls
FROM tensor_edge
WHERE kind <> 'view'
GROUP BY source_tensor_id, target_tensor_id, kind, op, line
ORDER BY source_tensor_id, target_tensor_id, kind, op, line
