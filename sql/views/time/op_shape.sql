-- One op with inputs of one set of shapes and types: its calls, their GPU time, and the rate of products of matrices.
--
-- Calls count that launch kernels themselves, and not by an op within them.
CREATE VIEW op_shape (
  -- The op.
  op,
  -- Shapes of its inputs in their order, as 8x16 16x32. Null where they are unknown.
  shapes,
  -- Their element types.
  dtypes,
  -- Calls.
  call_count,
  launch_count,
  time_ns,
  -- Operations of one call that multiplies two matrices, a multiply-add counted as two. Null for other ops.
  flops,
  -- Operations of all calls in a second of their GPU time.
  flops_per_second
) AS
WITH called AS (
  SELECT l.op_id, count(*) AS launches, sum(t.time_ns) AS time_ns
  FROM launch l
  JOIN launch_time t ON t.kernel_id = l.kernel_id
  WHERE l.op_id IS NOT NULL
  GROUP BY l.op_id
), input AS (
  SELECT op_id, position, element, sizes, dtype FROM op_input WHERE cardinality(sizes) > 0
  UNION ALL
  SELECT o.op_id, o.position, o.element, t.sizes, t.dtype
  FROM op_tensor o
  JOIN tensor t ON t.tensor_id = o.tensor_id
  WHERE o.direction <> 'out' AND cardinality(t.sizes) > 0
), listed AS (
  SELECT
    i.op_id,
    array_to_string(array_agg(array_to_string(i.sizes, 'x') ORDER BY i.position, i.element), ' ') AS shapes,
    array_to_string(array_agg(coalesce(i.dtype, '?') ORDER BY i.position, i.element), ' ') AS dtypes,
    -- Inputs with rows and columns, the last ones first.
    array_agg(CAST(array_product(i.sizes) AS DOUBLE) ORDER BY i.position DESC, i.element DESC)
      FILTER (WHERE cardinality(i.sizes) > 1) AS matrices,
    array_agg(CAST(i.sizes[-1] AS DOUBLE) ORDER BY i.position DESC, i.element DESC)
      FILTER (WHERE cardinality(i.sizes) > 1) AS columns,
    array_agg(CASE WHEN cardinality(i.sizes) = 3 THEN CAST(i.sizes[1] AS DOUBLE) ELSE 1.0 END
      ORDER BY i.position DESC, i.element DESC) FILTER (WHERE cardinality(i.sizes) > 1) AS batches
  FROM input i
  JOIN called c ON c.op_id = i.op_id
  GROUP BY i.op_id
), named AS (
  SELECT
    o.name, s.shapes, s.dtypes, c.launches, c.time_ns,
    -- The columns of the first factor are summed over.
    CASE WHEN regexp_like(o.name, '^aten::(mm|addmm|bmm|baddbmm)(\.\w+)?$')
      THEN 2.0 * s.matrices[1] * s.matrices[2] / nullif(s.columns[2], 0.0) / nullif(s.batches[1], 0.0) END AS flops
  FROM called c
  JOIN op o ON o.op_id = c.op_id
  LEFT JOIN listed s ON s.op_id = c.op_id
  WHERE o.kind <> 'region'
)
SELECT
  name, shapes, dtypes, count(*), sum(launches), sum(time_ns), flops,
  1e9 * flops * count(*) / nullif(sum(time_ns), 0.0)
FROM named
GROUP BY name, shapes, dtypes, flops
