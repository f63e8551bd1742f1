-- Accesses of tensors
-- Where the costliest tensors were accessed, in the launches whose accesses were recorded: rows and columns are a tensor's
-- two largest dimensions, others are summed; a single dimension is written line after line. blamed samples: those that
-- warps waited for these accesses, shared out by sectors. A row without a cell is holes: bytes between elements.
SELECT
  tensor_id, kind, row AS cell_row, column AS cell_column, row_count, column_count, row_dimension, column_dimension,
  row_extent, column_extent, launches, touches, requests, blocks, sectors, blamed_samples, block_rate
FROM tensor_cell
WHERE tensor_id IN ($tensors)
ORDER BY tensor_id, kind, cell_row NULLS LAST, cell_column
