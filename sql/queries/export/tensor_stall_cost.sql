-- Memory stalls of tensors, as tensor_stall_cost.csv
-- Memory stalls attributed to each tensor, and below them unattributed ones: all rows add up to the memory stalls. Each
-- stall counts once, by its producer's function and pc. percent is a fraction of all stalls, with decimals.
SELECT
  t.tensor_id,
  CASE
    WHEN c.target = 'tensor' AND n.is_view THEN 'View Node'
    WHEN c.target = 'tensor' THEN 'Root Node'
    WHEN c.object_id IS NOT NULL THEN 'Memory Block'
    ELSE 'none'
  END AS kind,
  o.pystates_hash,
  c.memory_samples AS stalls,
  100.0 * c.memory_share AS percent,
  coalesce(c.object, c.remainder) AS name,
  c.type, c.op, c.born_at, c.stalled_at,
  replace(p.stack, chr(10), ' < ') AS call_path,
  c.object_id
FROM object_cost c
LEFT JOIN tensor t ON c.target = 'tensor' AND t.tensor_id = c.object_id
LEFT JOIN (SELECT tensor_id, max(distance) > 0 AS is_view FROM tensor_tree GROUP BY tensor_id) n
  ON n.tensor_id = t.tensor_id
LEFT JOIN op o ON o.op_id = t.op_id
LEFT JOIN python_stack p ON p.pystates_hash = o.pystates_hash
WHERE c.memory_samples > 0.0
ORDER BY c.target IS DISTINCT FROM 'tensor', stalls DESC, c.object_id, name
