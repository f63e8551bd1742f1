-- Pointers among the arguments
-- Each pointer among the arguments of a launch: the memory and the tensor that it leads to.
SELECT
  p.kernel_id, p.parameter_offset, p.storage_id, p.tensor_id, p.allocation_id,
  coalesce(s.address, a.address) AS object_address, coalesce(s.size_bytes, a.size_bytes) AS object_bytes,
  t.address AS tensor_address, t.span_bytes AS tensor_bytes, c.label, t.dtype || ' ' || shape(t.sizes, t.strides) AS type,
  t.dtype, t.element_bytes
FROM pointer_tensor p
LEFT JOIN storage s ON s.storage_id = p.storage_id
LEFT JOIN device_allocation a ON a.allocation_id = p.allocation_id
LEFT JOIN tensor t ON t.tensor_id = p.tensor_id
LEFT JOIN target_context c ON c.target = p.target AND c.object_id = coalesce(p.tensor_id, p.storage_id, p.allocation_id)
WHERE s.address IS NOT NULL OR a.address IS NOT NULL
ORDER BY p.kernel_id, p.parameter_offset
