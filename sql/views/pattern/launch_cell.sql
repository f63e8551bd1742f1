-- One bin of a tensor's heat map for one launch and one kind of access: accesses, and samples of stalls.
--
-- See `tensor_cell`, which sums over launches. Accesses are those of the rows that the capture holds: if
-- `launch_access` says so, a sample of blocks. Stalls for copies by tensor maps and pointers have no bin: no instrument
-- observes which elements they copy. `tensor_stall_cost` has them.
CREATE VIEW launch_cell (
  kernel_id,
  tensor_id,
  -- The bin's row, from 0. Null for holes.
  row,
  -- Its column. Null for holes.
  column,
  -- Rows of the heat map.
  row_count,
  -- Columns of the heat map.
  column_count,
  -- The tensor's dimension along the rows. Null if a dimension is wrapped into rows, or if none varies.
  row_dimension,
  -- The dimension along the columns. Null if none varies.
  column_dimension,
  -- Elements along the row direction.
  row_extent,
  -- Elements along a row.
  column_extent,
  -- Kind of access of the instructions: read, write, atomic, prefetch.
  kind,
  -- Elements accessed, counted per access and lane.
  touches,
  -- Warp requests that access the bin.
  requests,
  -- Distinct blocks that do.
  blocks,
  -- Distinct warps that do.
  warps,
  -- Sectors of 32 bytes in the bin, distinct in each request.
  sectors,
  -- Samples attributed to the tensor through these instructions, distributed by their sectors. 0 without samples.
  -- Samples of tensor maps and bulk copies, whose addresses no instrument observes, are in no bin.
  blamed_samples,
  -- Sampled part of the blocks, from which `blocks` and `warps` are scaled: 1 if they are exact.
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
