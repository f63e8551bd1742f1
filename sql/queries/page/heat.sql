-- Accesses of tensors
-- Where tensors were accessed, in the launches whose accesses were recorded: the costliest tensors, then those accessed
-- most. Rows and columns are a tensor's two largest dimensions, others are summed; a single dimension is written line
-- after line. blamed samples: those that warps waited for these accesses, shared out by sectors. A row without a cell is
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
