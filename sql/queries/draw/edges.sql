-- Relations between tensors
-- What a tensor was made from and what was written into it, beside the views that tensors say themselves.
SELECT source_tensor_id, target_tensor_id, kind, op, line, count(*) AS calls
FROM tensor_edge
WHERE kind <> 'view'
GROUP BY source_tensor_id, target_tensor_id, kind, op, line
ORDER BY source_tensor_id, target_tensor_id, kind, op, line
