-- Wrong accesses
-- Accesses to memory that may make results wrong, each at one line of a kernel: out of bounds, after free, of memory that
-- nothing wrote, races of blocks and warps, overlapping copies. launches: with such accesses. block, warp, lanes: of an
-- example. The view of the defect's name has all. `wrong_access_coverage` has the launches that could be judged.
WITH placed AS (
  SELECT w.*, n.short_kernel
  FROM wrong_access w
  LEFT JOIN launch l ON l.kernel_id = w.kernel_id
  LEFT JOIN kernel_name n ON n.function_id = l.function_id
), summed AS (
  SELECT
    defect, short_kernel, source_line, line, object, count(DISTINCT kernel_id) AS launches,
    CAST(sum(count) AS DOUBLE) AS count,
    first_value(fact ORDER BY count DESC, kernel_id, pc, fact) AS fact,
    first_value(block ORDER BY count DESC, kernel_id, pc, fact) AS block,
    first_value(warp ORDER BY count DESC, kernel_id, pc, fact) AS warp,
    first_value(lane_mask ORDER BY count DESC, kernel_id, pc, fact) AS lane_mask
  FROM placed
  GROUP BY defect, short_kernel, source_line, line, object
), numbered AS (
  SELECT *, least($top + 1, row_number() OVER (ORDER BY defect, count DESC, short_kernel, source_line, line, object)) AS place
  FROM summed
)
SELECT
  CASE WHEN place <= $top THEN max(defect) ELSE 'other (' || CAST(count(*) AS VARCHAR) || ')' END AS defect,
  sum(launches) AS launches,
  CASE WHEN place <= $top THEN max(fact) END AS fact,
  CASE WHEN place <= $top THEN max(short_kernel) END AS kernel,
  CASE WHEN place <= $top THEN max(source_line) END AS source_line,
  CASE WHEN place <= $top THEN max(line) END AS line,
  CASE WHEN place <= $top THEN max(block) END AS block,
  CASE WHEN place <= $top THEN max(warp) END AS warp,
  CASE WHEN place <= $top THEN '0x' || to_hex(max(lane_mask)) END AS lanes
FROM numbered
GROUP BY place
ORDER BY place
