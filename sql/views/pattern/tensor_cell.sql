-- One cell of a tensor's picture, and what all launches together did to it by one kind of access.
--
-- The tensor's two largest dimensions are rows and columns, the one that stands first in its sizes as rows; others are
-- summed, and each direction has at most 64 cells. A single dimension is written line after line into a square. Elements
-- are found by the tensor's strides: a transposed or sliced view is drawn as its shape says, not as its memory lies.
-- Accesses are those of lanes that belong to this tensor rather than to another view of its storage, as in `access_tensor`.
-- Bytes between the tensor's elements that requests access beside its elements are holes: their row and column are null.
-- Ask for one tensor (`WHERE tensor_id = ...`), or one launch in `launch_cell`: both are fast.
CREATE VIEW tensor_cell (
  -- The tensor.
  tensor_id,
  -- The cell's row, from 0; null for holes.
  row,
  -- Its column; null for holes.
  column,
  -- Rows of the picture.
  row_count,
  -- Columns of the picture.
  column_count,
  -- The tensor's dimension along which rows follow each other; null where a dimension is folded into rows, or none moves.
  row_dimension,
  -- The dimension along which columns follow each other; null where none moves.
  column_dimension,
  -- Elements along the rows' direction.
  row_extent,
  -- Elements along a row.
  column_extent,
  -- What the instructions do: read, write, atomic, prefetch.
  kind,
  -- Launches that access the cell.
  launches,
  -- Elements accessed, each time and by each lane.
  touches,
  -- Warp requests that access the cell.
  requests,
  -- Distinct blocks that do, summed over launches.
  blocks,
  -- Distinct warps that do, summed over launches.
  warps,
  -- Sectors of 32 bytes in the cell, distinct in each request.
  sectors,
  -- Samples charged to the tensor through instructions of this kind, shared out by their sectors; 0 where nothing was
  -- sampled.
  blamed_samples,
  -- The part of the blocks that `blocks` and `warps` are scaled from: 1 where they are exact.
  block_rate
) AS
SELECT
  tensor_id, row, column, max(row_count), max(column_count), max(row_dimension), max(column_dimension), max(row_extent),
  max(column_extent), kind, count(*), sum(touches), sum(requests), sum(blocks), sum(warps), sum(sectors),
  sum(blamed_samples), min(block_rate)
FROM launch_cell
GROUP BY tensor_id, row, column, kind
