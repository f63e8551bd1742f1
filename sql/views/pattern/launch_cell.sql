-- What one launch accessed of one cell of a tensor's picture, by one kind of access, and what its stalls cost there.
--
-- See `tensor_cell`, which sums over launches.
CREATE VIEW launch_cell (
  -- The launch.
  kernel_id,
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
  -- Elements accessed, each time and by each lane.
  touches,
  -- Warp requests that access the cell.
  requests,
  -- Distinct blocks that do.
  blocks,
  -- Distinct warps that do.
  warps,
  -- Sectors of 32 bytes in the cell, distinct in each request.
  sectors,
  -- Samples charged to the tensor through these instructions, shared out by their sectors; 0 where nothing was sampled.
  blamed_samples,
  -- The part of the blocks that `blocks` and `warps` are scaled from: 1 where they are exact.
  block_rate
) AS
WITH charged AS (
  SELECT kernel_id, function_id, pc, tensor_id, sum(samples) AS samples
  FROM producer_charge
  WHERE tensor_id IS NOT NULL
  GROUP BY kernel_id, function_id, pc, tensor_id
), placed AS (
  SELECT
    kernel_id, function_id, pc, tensor_id, cell_row, cell_column, kind,
    sectors / CAST(sum(sectors) OVER (PARTITION BY kernel_id, function_id, pc, tensor_id) AS DOUBLE) AS share
  FROM pc_cell_part
), layer AS (
  SELECT
    kernel_id, tensor_id, cell_row, cell_column, row_count, column_count, row_dimension, column_dimension, row_extent,
    column_extent, kind, touches, requests, blocks, warps, sectors, 0.0 AS samples, block_rate
  FROM launch_cell_part
  UNION ALL
  SELECT
    p.kernel_id, p.tensor_id, p.cell_row, p.cell_column, NULL, NULL, NULL, NULL, NULL, NULL, p.kind, 0, 0, 0, 0, 0,
    c.samples * p.share, NULL
  FROM placed p
  JOIN charged c
    ON c.kernel_id = p.kernel_id AND c.function_id = p.function_id AND c.pc = p.pc AND c.tensor_id = p.tensor_id
)
SELECT
  kernel_id, tensor_id, cell_row, cell_column, max(row_count), max(column_count), max(row_dimension), max(column_dimension),
  max(row_extent), max(column_extent), kind, sum(touches), sum(requests), sum(blocks), sum(warps), sum(sectors),
  sum(samples), min(block_rate)
FROM layer
GROUP BY kernel_id, tensor_id, cell_row, cell_column, kind
