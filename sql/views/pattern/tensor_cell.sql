-- One bin of a tensor's heat map, with the accesses of all launches by one kind of access.
--
-- The tensor's two largest dimensions are rows and columns, the first in its sizes as rows. Others are summed, and each
-- direction has up to 64 bins. A single dimension is wrapped line by line into a square. Elements are located by the
-- tensor's strides: a transposed or sliced view is drawn by its shape, not by its memory layout. Accesses are those of
-- lanes that belong to this tensor rather than to another view of its storage, as in `access_tensor`. Bytes between the
-- tensor's elements that its requests also access are holes: their row and column are null. Filter by one tensor
-- (`WHERE tensor_id = ...`), or by one launch in `launch_cell`: both are fast. Accesses are those of the rows that the
-- capture holds: a sample of blocks where `launch_access` says so.
CREATE VIEW tensor_cell (
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
  -- Launches that access the bin.
  launches,
  -- Elements accessed, counted per access and lane.
  touches,
  -- Warp requests that access the bin.
  requests,
  -- Distinct blocks that do, summed over launches.
  blocks,
  -- Distinct warps that do, summed over launches.
  warps,
  -- Sectors of 32 bytes in the bin, distinct in each request.
  sectors,
  -- Samples attributed to the tensor through instructions of this kind, distributed by their sectors. 0 without
  -- samples. Those of tensor maps and bulk copies, whose addresses no instrument observes, are in no bin.
  blamed_samples,
  -- Sampled part of the blocks, from which `blocks` and `warps` are scaled: 1 if they are exact.
  block_rate
) AS
SELECT
  tensor_id, row, column, max(row_count), max(column_count), max(row_dimension), max(column_dimension), max(row_extent),
  max(column_extent), kind, count(*), sum(touches), sum(requests), sum(blocks), sum(warps), sum(sectors),
  sum(blamed_samples), min(block_rate)
FROM launch_cell
GROUP BY tensor_id, row, column, kind
