-- One module that one launch works for, with its share of the launch. The shares of a launch add up to 1.
--
-- Kernels outside modules, such as those of optimizers, work for the modules whose parameters, gradients or states their op
-- has, by bytes. An op on results without a name has those of the op that made them.
CREATE VIEW launch_layer (
  -- The launch.
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
  -- Means: origin (its operation ran in the module, as in `launch_origin`), parameters. Null without a module.
  layer_by
) AS
WITH origin AS (
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
), part AS (
  SELECT b.kernel_id, d.module_path, d.weight, 'parameters' AS layer_by
  FROM bare b
  JOIN divided d ON d.op_id = b.op_id
  UNION ALL
  SELECT o.kernel_id, o.module_path, o.weight, CASE WHEN o.module_path IS NOT NULL THEN 'origin' END
  FROM origin o
  LEFT JOIN bare b ON b.kernel_id = o.kernel_id
  LEFT JOIN (SELECT DISTINCT op_id FROM divided) d ON d.op_id = b.op_id
  WHERE d.op_id IS NULL
), layered AS (
  SELECT
    *, coalesce((regexp_match(module_path, '^((?:[^.]+[.])*?(?:[^.]*_)?[0-9]+)(?:[.]|$)'))[1], module_path) AS layer
  FROM part
)
SELECT kernel_id, layer, regexp_replace(layer, '(^|[._])[0-9]+$', '\1*'), module_path, weight, layer_by
FROM layered
