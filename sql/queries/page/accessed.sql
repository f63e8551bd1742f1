-- Accesses of tensors with a heat map
-- The totals of each heat map, by kind of access. accessed cells: accessed bins divided by bins that hold elements.
-- blamed samples: samples of warps that waited for these accesses. touches of holes: accesses to bytes between
-- elements. The other numbers include both. variation: standard deviation of the touches of a bin, divided by their mean:
-- below 0.1, accesses are uniform. A tensor without accesses has no recorded ones.
WITH drawn AS (
  SELECT
    tensor_id, kind, max(row_dimension) AS row_dimension, max(column_dimension) AS column_dimension,
    CAST(max(row_count) AS BIGINT) AS row_count, CAST(max(column_count) AS BIGINT) AS column_count,
    CAST(max(row_extent) AS BIGINT) AS row_extent, CAST(max(column_extent) AS BIGINT) AS column_extent,
    count(row) AS cells,
    sum(touches) AS touches,
    sum(requests) AS requests,
    sum(sectors) AS sectors,
    sum(blamed_samples) AS blamed_samples,
    sum(CASE WHEN row IS NULL THEN touches ELSE 0 END) AS touches_of_holes,
    sum(CASE WHEN row IS NOT NULL THEN touches * touches ELSE 0 END) AS squares
  FROM tensor_cell
  WHERE tensor_id IN ($tensors)
  GROUP BY tensor_id, kind
), sized AS (
  SELECT
    d.*,
    -- A single dimension may end before the last line does. Bins beyond its end are empty.
    row_count * column_count - CASE
      WHEN row_dimension IS NULL AND ((row_count - 1) * row_extent + row_count - 1) / row_count = row_extent - 1
        THEN coalesce(
          column_count - 1 - (t.sizes[d.column_dimension + 1] - 1) % column_extent * column_count / column_extent, 0)
      ELSE 0
    END AS cell_count
  FROM drawn d
  JOIN tensor t ON t.tensor_id = d.tensor_id
)
SELECT
  n.object_id AS drawn_tensor_id, n.label AS tensor, n.type, n.born_at, s.kind AS access,
  CAST(s.cells AS DOUBLE) / nullif(s.cell_count, 0) AS accessed_cells_share,
  sqrt(greatest(0.0, s.squares * s.cell_count / nullif(power(s.touches - s.touches_of_holes, 2), 0.0) - 1.0))
    AS variation,
  s.touches, s.requests, s.sectors, s.blamed_samples, s.touches_of_holes
FROM target_context n
LEFT JOIN sized s ON s.tensor_id = n.object_id
WHERE n.target = 'tensor' AND n.object_id IN ($tensors)
ORDER BY array_position(make_array($tensors), CAST(n.object_id AS BIGINT)), access
