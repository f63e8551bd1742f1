-- Bytes of the tensor map of one copy of one launch: no more of an object is copied by it.
CREATE VIEW copy_extent (
  kernel_id,
  -- The function of the copy.
  function_id,
  -- The copy.
  pc,
  -- Bytes of all elements of the tensor map.
  extent_bytes
) AS
SELECT
  m.kernel_id, u.function_id, u.pc,
  CAST(max(m.element_bytes) AS DOUBLE) * max(m.sizes[1]) * max(coalesce(m.sizes[2], 1)) * max(coalesce(m.sizes[3], 1))
    * max(coalesce(m.sizes[4], 1)) * max(coalesce(m.sizes[5], 1))
FROM tensor_map m
JOIN launch l ON l.kernel_id = m.kernel_id
JOIN tensor_map_use u ON u.kernel_function_id = l.function_id AND u.parameter_offset = m.parameter_offset
WHERE m.element_bytes > 0
GROUP BY m.kernel_id, u.function_id, u.pc
