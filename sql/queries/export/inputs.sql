-- Inputs of ops
-- One row per input of an op: element type, shape and strides of a tensor, or the value of another input.
SELECT op_id, position, element, dtype, sizes, strides, value
FROM op_input
ORDER BY op_id, position, element
