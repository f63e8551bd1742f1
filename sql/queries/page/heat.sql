-- Accesses of tensors
-- Heat maps of tensor accesses, in launches with recorded accesses: the costliest tensors, then the most accessed. Rows
-- and columns are a tensor's two largest dimensions, others are summed. A single dimension is wrapped line by line.
-- blamed samples: samples of warps that waited for these accesses, distributed by sectors. A row without a bin is
-- holes: bytes between elements.
SELECT
  c.tensor_id, c.kind, c.row AS cell_row, c.column AS cell_column, c.row_count, c.column_count, c.row_dimension,
  c.column_dimension, c.row_extent, c.column_extent,
  CASE WHEN c.row_dimension IS NULL THEN t.sizes[c.column_dimension + 1] END AS folded_extent,
  c.launches, c.touches, c.requests, c.blocks, c.sectors, c.blamed_samples, c.block_rate
FROM tensor_cell c
LEFT JOIN tensor t ON t.tensor_id = c.tensor_id
WHERE c.tensor_id IN ($tensors)
ORDER BY c.tensor_id, c.kind, cell_row NULLS LAST, cell_column
