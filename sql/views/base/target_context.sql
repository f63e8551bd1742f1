-- One target of accesses, with its name: a tensor, a storage or a driver allocation.
CREATE VIEW target_context (
  -- Type of the target, as in `pc_tensor`: tensor, storage, outside any tensor.
  target,
  object_id,
  -- Its name, else a label made from its op or size.
  name,
  -- Element type and shape of a tensor, bytes of everything else.
  type,
  -- The op that made it, or the range.
  op,
  -- The line of that op, or of the allocation. In backward, the line whose gradient the op computes.
  born_at,
  -- Its label for users. Never join by it: names and lines change.
  label,
  -- Origin of the label: name (of a parameter or buffer), call (op and line), op, workspace (memory that a library took
  -- inside an op), storage, allocation. Null if nothing is known.
  label_source,
  -- Its name with `*` for the numbers of layers: tensors with one job in equal layers share it. Else `name`.
  family,
  -- Type of its family, the objects of equal `family`, `op` and `born_at` that rankings sum: their `type`. Where inputs vary
  -- and objects without a name have more than 8 types, the element type and the number of shapes.
  family_type,
  -- The smallest object_id of its family.
  family_id
) AS
WITH tensor_call AS (
  SELECT
    *,
    CASE WHEN role IN ('gradient', 'optimizer_state') THEN replace(role, '_', ' ') || ' of ' || name ELSE name END AS full_name,
    line_label(birth_line, birth_forward_line) AS place,
    -- Kernels of torch.compile are named by their ops: triton_poi_fused_gelu_1.
    regexp_replace(regexp_replace(regexp_replace(op, '^.*::', ''), '[.].*$', ''), '^triton_[a-z]+_(fused_.+)_[0-9]+$', '\1') || '()' AS call
  FROM tensor_context
), storage_call AS (
  SELECT
    s.storage_id, s.size_bytes, o.op, o.source_line, t.storage_id IS NOT NULL AS has_tensor,
    regexp_replace(regexp_replace(o.op, '^.*::', ''), '[.].*$', '') || '()' AS call
  FROM storage s
  LEFT JOIN op_context o ON o.op_id = s.op_id
  LEFT JOIN (SELECT DISTINCT storage_id FROM tensor) t ON t.storage_id = s.storage_id
), object AS (
  SELECT
    'tensor' AS target, tensor_id AS object_id,
    coalesce(full_name, op || '()', 'unnamed') AS name,
    dtype || ' ' || shape AS type,
    op,
    place AS born_at,
    coalesce(full_name, call || ' at ' || regexp_replace(place, '^.*(:[0-9]+) [^:]*?( [(]grad[)])?$', '\1\2'), call, 'unnamed') AS label,
    CASE WHEN name IS NOT NULL THEN 'name' WHEN call IS NOT NULL AND place IS NOT NULL THEN 'call' WHEN call IS NOT NULL THEN 'op' END AS label_source,
    coalesce(regexp_replace(full_name, '\b[0-9]+\b', '*', 'g'), op || '()', 'unnamed') AS family,
    dtype AS element
  FROM tensor_call
  UNION ALL
  SELECT
    'storage', storage_id,
    coalesce('memory of ' || op, 'memory outside tensors'),
    CAST(size_bytes AS VARCHAR) || ' bytes',
    op,
    source_line,
    CASE
      WHEN call IS NULL THEN 'memory outside tensors'
      WHEN has_tensor THEN 'memory of ' || call
      -- The caches of cuBLAS and cuDNN, which PyTorch allocates inside of the first op that needs them.
      WHEN regexp_like(call, '^_?(mm|addmm|bmm|baddbmm|linear|matmul|scaled_mm|addmv|mv|dot)[(]') THEN 'cuBLAS workspace of ' || call
      WHEN regexp_like(call, '^(cudnn_)?convolution|^_?cudnn') THEN 'cuDNN workspace of ' || call
      ELSE 'memory inside ' || call
    END,
    CASE WHEN call IS NULL OR has_tensor THEN 'storage' ELSE 'workspace' END,
    coalesce('memory of ' || op, 'memory outside tensors'),
    NULL
  FROM storage_call
  UNION ALL
  SELECT
    'outside any tensor', a.allocation_id,
    -- The number of the allocation in its run.
    'allocation ' || CAST(a.allocation_id AS VARCHAR),
    CAST(a.size_bytes AS VARCHAR) || ' bytes',
    o.name AS op,
    coalesce(p.line, CASE WHEN o.kind = 'region' THEN o.name || ' (range)' END),
    'allocation ' || CAST(a.allocation_id AS VARCHAR),
    'allocation',
    'allocation ' || CAST(a.allocation_id AS VARCHAR),
    NULL
  FROM device_allocation a
  LEFT JOIN op o ON o.op_id = a.op_id
  LEFT JOIN python_line p ON p.pystates_hash = a.pystates_hash
), typed AS (
  SELECT *, dense_rank() OVER (PARTITION BY target, family, op, born_at, element ORDER BY type) AS type_rank FROM object
), counted AS (
  SELECT *, max(type_rank) OVER (PARTITION BY target, family, op, born_at, element) AS types FROM typed
), grouped AS (
  SELECT
    *, CASE
      WHEN types <= 8 OR label_source = 'name' THEN type
      ELSE coalesce(element || ', ' || CAST(types AS VARCHAR) || ' shapes', CAST(types AS VARCHAR) || ' sizes')
    END AS family_type
  FROM counted
)
SELECT
  target, object_id, name, type, op, born_at, label, label_source, family, family_type,
  min(object_id) OVER (PARTITION BY target, family, op, born_at, family_type)
FROM grouped
