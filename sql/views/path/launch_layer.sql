-- One module that one launch works for, with its share of the launch. The shares of a launch add up to 1.
--
-- Kernels outside modules, such as those of optimizers, work for the modules whose parameters, gradients or states their op
-- has, by bytes. An op on results without a name has those of the ops that made them, up to nine ops before. Forward ops on
-- the results of modules belong to the layer of the ops before and behind, if that is one, as attention between two
-- projections. Else they are losses and metrics, and with their gradients the layer `(outputs)`.
CREATE VIEW launch_layer (
  kernel_id,
  -- The layer: the path of the module up to its first number, such as blocks.0 of blocks.0.mlp.up. The whole path without
  -- one. Null where no module is known.
  layer,
  -- The kind of layer: its number is *, such as blocks.*.
  layer_kind,
  -- Dotted path of the module, in backward of the module whose gradient this is. A parameter that no submodule has stands
  -- for itself.
  module_path,
  -- Its share of the launch.
  weight,
  -- Means: origin (its operation ran in the module, as in `launch_origin`), parameters, order, outputs. Null without a module.
  layer_by
) AS
WITH RECURSIVE origin AS (
  SELECT kernel_id, module_path, sum(weight) AS weight
  FROM launch_origin
  GROUP BY kernel_id, module_path
), bare AS (
  SELECT l.kernel_id, l.op_id
  FROM launch l
  LEFT JOIN (SELECT DISTINCT kernel_id FROM origin WHERE module_path IS NOT NULL) m ON m.kernel_id = l.kernel_id
  WHERE m.kernel_id IS NULL AND l.op_id IS NOT NULL
), role_depth AS (
  -- The names behind the module's path: of the parameter, and of the state.
  SELECT * FROM (VALUES ('parameter', '[.][^.]+$'), ('gradient', '[.][^.]+$'), ('buffer', '[.][^.]+$'),
    ('optimizer_state', '([.][^.]+)?[.][^.]+$')) AS v (role, own_name)
), used AS (
  SELECT u.op_id, u.element, x.name, d.own_name, x.span_bytes, x.op_id AS maker_id
  FROM (SELECT DISTINCT op_id FROM bare) b
  JOIN op_tensor u ON u.op_id = b.op_id
  JOIN tensor x ON x.tensor_id = u.tensor_id
  LEFT JOIN role_depth d ON d.role = x.role
), named AS (
  SELECT op_id, name, own_name, span_bytes FROM used WHERE name IS NOT NULL AND own_name IS NOT NULL
), made AS (
  SELECT u.op_id, x.name, d.own_name, x.span_bytes
  FROM used u
  JOIN op_tensor s ON s.op_id = u.maker_id AND s.element = u.element
  JOIN tensor x ON x.tensor_id = s.tensor_id
  JOIN role_depth d ON d.role = x.role
  LEFT JOIN (SELECT DISTINCT op_id FROM named) k ON k.op_id = u.op_id
  WHERE k.op_id IS NULL AND x.name IS NOT NULL
), owner AS (
  SELECT
    op_id, span_bytes,
    regexp_replace(
      regexp_replace(name, '(^|[.])(_orig_mod|_fsdp_wrapped_module|_checkpoint_wrapped_module)[.]', '\1', 'g'), own_name, ''
    ) AS module_path
  FROM (SELECT * FROM named UNION ALL SELECT * FROM made)
), summed AS (
  SELECT op_id, module_path, CAST(sum(span_bytes) AS DOUBLE) AS part_bytes
  FROM owner
  GROUP BY op_id, module_path
), divided AS (
  SELECT op_id, module_path, part_bytes / sum(part_bytes) OVER (PARTITION BY op_id) AS weight
  FROM summed
  WHERE part_bytes > 0
), owned AS (
  SELECT DISTINCT op_id FROM divided
), outer_op AS (
  SELECT o.op_id, o.forward_op_id, CAST(o.phase AS VARCHAR) AS phase
  FROM op o
  LEFT JOIN op g ON g.op_id = o.forward_op_id
  WHERE o.module_path IS NULL AND g.module_path IS NULL AND o.kind IN ('torch', 'triton')
), made_by AS (
  -- Ops outside modules on results of earlier ops.
  SELECT DISTINCT o.op_id, x.op_id AS maker_id, o.phase
  FROM outer_op o
  JOIN op_tensor u ON u.op_id = o.op_id
  JOIN tensor x ON x.tensor_id = u.tensor_id
  WHERE x.op_id < o.op_id
), gradient AS (
  SELECT o.op_id, g.module_path
  FROM op o
  JOIN op g ON g.op_id = o.forward_op_id
  WHERE g.module_path IS NOT NULL AND CAST(o.phase AS VARCHAR) = 'backward'
), lineage AS (
  -- The ops whose modules are known that an op's arguments come from: those on names, and gradients.
  SELECT op_id, op_id AS source_id, 0 AS distance FROM owned
  UNION
  SELECT m.op_id, m.maker_id, 1
  FROM made_by m
  JOIN gradient g ON g.op_id = m.maker_id
  LEFT JOIN owned d ON d.op_id = m.op_id
  WHERE m.phase = 'forward' AND d.op_id IS NULL
  UNION
  SELECT m.op_id, l.source_id, l.distance + 1
  FROM lineage l
  JOIN made_by m ON m.maker_id = l.op_id
  LEFT JOIN owned d ON d.op_id = m.op_id
  WHERE d.op_id IS NULL AND l.distance < 9
), descended AS (
  SELECT l.op_id, d.module_path, sum(d.weight) / sum(sum(d.weight)) OVER (PARTITION BY l.op_id) AS weight
  FROM (SELECT DISTINCT op_id, source_id FROM lineage) l
  JOIN (SELECT * FROM divided UNION ALL SELECT op_id, module_path, 1.0 FROM gradient) d ON d.op_id = l.source_id
  GROUP BY l.op_id, d.module_path
), output AS (
  SELECT DISTINCT m.op_id
  FROM made_by m
  JOIN op o ON o.op_id = m.maker_id
  WHERE o.module_path IS NOT NULL AND m.phase = 'forward' AND CAST(o.phase AS VARCHAR) = 'forward'
  UNION
  SELECT m.op_id
  FROM output l
  JOIN made_by m ON m.maker_id = l.op_id
  WHERE m.phase = 'forward'
), module_op AS (
  SELECT
    op_id, coalesce((regexp_match(module_path, '^((?:[^.]+[.])*?(?:[^.]*_)?[0-9]+)(?:[.]|$)'))[1], module_path) AS layer
  FROM op
  WHERE module_path IS NOT NULL AND CAST(phase AS VARCHAR) = 'forward'
), around AS (
  SELECT
    op_id, max(CASE WHEN layer IS NOT NULL THEN op_id END) OVER (ORDER BY op_id) AS before_id,
    min(CASE WHEN layer IS NOT NULL THEN op_id END) OVER (ORDER BY op_id ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING)
      AS behind_id
  FROM (SELECT op_id, layer FROM module_op UNION ALL SELECT op_id, CAST(NULL AS VARCHAR) FROM output)
), inside AS (
  SELECT a.op_id, b.layer
  FROM around a
  JOIN module_op b ON b.op_id = a.before_id
  JOIN module_op n ON n.op_id = a.behind_id
  WHERE b.layer = n.layer AND b.op_id <> n.op_id
), share AS (
  SELECT op_id, module_path, weight, 'parameters' AS layer_by FROM descended
  UNION ALL
  SELECT o.op_id, coalesce(i.layer, '(outputs)'), 1.0, CASE WHEN i.layer IS NULL THEN 'outputs' ELSE 'order' END
  FROM outer_op o
  LEFT JOIN inside i ON i.op_id = coalesce(o.forward_op_id, o.op_id)
  LEFT JOIN (SELECT DISTINCT op_id FROM lineage) l ON l.op_id = o.op_id
  WHERE l.op_id IS NULL
    AND (o.op_id IN (SELECT op_id FROM output) OR o.forward_op_id IN (SELECT op_id FROM output))
), part AS (
  SELECT b.kernel_id, d.module_path, d.weight, d.layer_by
  FROM bare b
  JOIN share d ON d.op_id = b.op_id
  UNION ALL
  SELECT o.kernel_id, o.module_path, o.weight, CASE WHEN o.module_path IS NOT NULL THEN 'origin' END
  FROM origin o
  LEFT JOIN bare b ON b.kernel_id = o.kernel_id
  LEFT JOIN (SELECT DISTINCT op_id FROM share) d ON d.op_id = b.op_id
  WHERE d.op_id IS NULL
), layered AS (
  SELECT
    *, coalesce((regexp_match(module_path, '^((?:[^.]+[.])*?(?:[^.]*_)?[0-9]+)(?:[.]|$)'))[1], module_path) AS layer
  FROM part
)
SELECT kernel_id, layer, regexp_replace(layer, '(^|[._])[0-9]+$', '\1*'), module_path, weight, layer_by
FROM layered
