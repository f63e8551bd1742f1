-- Element at an address
-- The element of a tensor at an address, by its strides.
SELECT element_index(CAST($address AS BIGINT UNSIGNED), address, element_bytes, sizes, strides) AS element
FROM tensor
WHERE tensor_id = $tensor
