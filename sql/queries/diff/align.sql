-- Aligned launches
-- One launch, and what it is compared with in the other captures, at the first level that all captures share: op and
-- phase, op, kernel, module or range. The rest are remainders, kernels of their capture. key and class: launches of one
-- class do the same work: an op with the same shapes, or a kernel with the same grid and block. size: elements of an op's
-- inputs, of products of matrices their multiplications, of a kernel its threads.
WITH called AS (
  SELECT DISTINCT capture, op_id FROM every.launch WHERE op_id IS NOT NULL
), input AS (
  SELECT i.capture, i.op_id, i.position, i.element, i.sizes
  FROM every.op_input i
  JOIN called c ON c.capture = i.capture AND c.op_id = i.op_id
  WHERE cardinality(i.sizes) > 0
  UNION ALL
  SELECT o.capture, o.op_id, o.position, o.element, t.sizes
  FROM every.op_tensor o
  JOIN called c ON c.capture = o.capture AND c.op_id = o.op_id
  JOIN every.tensor t ON t.capture = o.capture AND t.tensor_id = o.tensor_id
  WHERE o.direction <> 'out' AND cardinality(t.sizes) > 0
), listed AS (
  SELECT
    capture, op_id,
    array_to_string(array_agg(array_to_string(sizes, 'x') ORDER BY position, element), ' ') AS shapes,
    sum(CAST(array_product(sizes) AS DOUBLE)) AS elements,
    -- Inputs with rows and columns, the last ones first.
    array_agg(CAST(array_product(sizes) AS DOUBLE) ORDER BY position DESC, element DESC)
      FILTER (WHERE cardinality(sizes) > 1) AS matrices,
    array_agg(CAST(sizes[-1] AS DOUBLE) ORDER BY position DESC, element DESC)
      FILTER (WHERE cardinality(sizes) > 1) AS columns,
    array_agg(CASE WHEN cardinality(sizes) = 3 THEN CAST(sizes[1] AS DOUBLE) ELSE 1.0 END ORDER BY position DESC, element DESC)
      FILTER (WHERE cardinality(sizes) > 1) AS batches
  FROM input
  GROUP BY capture, op_id
), shape AS (
  -- Two factors: the columns of the one before the last are summed over.
  SELECT
    capture, op_id, shapes, elements,
    matrices[1] * matrices[2] / nullif(columns[2], 0.0) / nullif(batches[1], 0.0) AS products
  FROM listed
), named AS (
  SELECT
    l.capture, l.kernel_id, l.op_id, f.demangled_name AS kernel, n.short_kernel,
    CAST(l.grid_x AS VARCHAR) || 'x' || CAST(l.grid_y AS VARCHAR) || 'x' || CAST(l.grid_z AS VARCHAR) || ' '
      || CAST(l.block_x AS VARCHAR) || 'x' || CAST(l.block_y AS VARCHAR) || 'x' || CAST(l.block_z AS VARCHAR) AS shape,
    CAST(l.grid_x AS DOUBLE) * l.grid_y * l.grid_z * l.block_x * l.block_y * l.block_z AS threads,
    -- Overloads: a release names aten::mm.default what another names aten::mm.
    CASE WHEN o.kind <> 'region' THEN regexp_replace(o.name, '^(\w+::\w+)\.\w+$', '\1') END AS op,
    coalesce(CAST(o.phase AS VARCHAR), '') AS phase,
    coalesce(o.module_path, g.module_path, CASE WHEN o.kind = 'region' THEN o.name END) AS module
  FROM every.launch l
  JOIN every.function f ON f.capture = l.capture AND f.function_id = l.function_id
  LEFT JOIN every.kernel_name n ON n.capture = l.capture AND n.function_id = l.function_id
  LEFT JOIN every.op o ON o.capture = l.capture AND o.op_id = l.op_id
  LEFT JOIN every.op g ON g.capture = o.capture AND g.op_id = o.forward_op_id
), keyed AS (
  -- Names may have 64 KiB: they are compared by their hash.
  SELECT
    *, coalesce(md5(op), '') AS op_key, coalesce(md5(kernel), '') AS kernel_key, coalesce(md5(module), '') AS module_key
  FROM named
), by_phase AS (
  -- The few kinds of launches, not all launches. Windows read them once, joins would for each level and side.
  SELECT
    *, op_key <> '' AND count(DISTINCT capture) OVER (PARTITION BY op_key, phase) = $captures AS is_phase
  FROM (SELECT DISTINCT capture, op_key, phase, kernel_key, module_key FROM keyed)
), by_op AS (
  SELECT
    *,
    is_phase OR op_key <> ''
      AND count(DISTINCT capture) FILTER (WHERE NOT is_phase) OVER (PARTITION BY op_key) = $captures AS is_op
  FROM by_phase
), by_kernel AS (
  SELECT
    *,
    NOT is_op AND count(DISTINCT capture) FILTER (WHERE NOT is_op) OVER (PARTITION BY kernel_key) = $captures AS is_kernel
  FROM by_op
), kind AS (
  SELECT
    *,
    CASE
      WHEN is_op THEN 'op'
      WHEN is_kernel THEN 'kernel'
      WHEN module_key <> ''
        AND count(DISTINCT capture) FILTER (WHERE NOT is_op AND NOT is_kernel) OVER (PARTITION BY module_key) = $captures
        THEN 'module'
      ELSE 'remainder'
    END AS level
  FROM by_kernel
), leveled AS (
  SELECT n.*, k.is_phase, k.level
  FROM keyed n
  JOIN kind k ON k.capture = n.capture AND k.op_key = n.op_key AND k.phase = n.phase AND k.kernel_key = n.kernel_key
    AND k.module_key = n.module_key
)
SELECT
  v.capture, v.kernel_id, v.op_id, v.level,
  CASE v.level
    WHEN 'op' THEN 'op ' || v.op || CASE WHEN v.is_phase THEN ' ' || v.phase ELSE '' END
    WHEN 'kernel' THEN 'kernel ' || v.kernel
    WHEN 'module' THEN 'module ' || v.module
    ELSE 'remainder ' || v.kernel
  END AS key,
  CASE v.level
    WHEN 'op' THEN v.op WHEN 'module' THEN v.module ELSE coalesce(v.short_kernel, v.kernel)
  END AS what,
  CASE v.level
    WHEN 'op' THEN CASE WHEN v.is_phase THEN v.phase ELSE '' END
    WHEN 'module' THEN 'module' WHEN 'remainder' THEN 'remainder' ELSE ''
  END AS detail,
  CASE v.level WHEN 'op' THEN coalesce(s.shapes, '') WHEN 'kernel' THEN v.shape END AS class,
  CASE v.level
    WHEN 'op' THEN CASE WHEN regexp_like(v.op, '^aten::(mm|addmm|bmm|baddbmm|linear|matmul)$') THEN s.products
      ELSE s.elements END
    WHEN 'kernel' THEN nullif(v.threads, 0.0)
  END AS size
FROM leveled v
LEFT JOIN shape s ON s.capture = v.capture AND s.op_id = v.op_id
