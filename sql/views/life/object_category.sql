-- One object, as in `memory_object`, and what it holds for the program.
--
-- | category | evidence |
-- |---|---|
-- | parameters, gradients, optimizer state, buffers | the role of one of its tensors, or its lifetime |
-- | activations | allocated in forward, and needed until backward, or never freed |
-- | temporaries | freed in the part of the step that allocated it |
-- | held to the end | allocated by an op, and freed behind the program's last launch |
-- | workspaces | in a recording, never freed, and no tensor of the program is in it: memory of a library |
-- | arguments, results | of a program that XLA compiled |
-- | other | nothing of these is known |
--
-- The part of the step is that of the op. Without one, as in a memory snapshot, functions of the Python stack show it.
CREATE VIEW object_category (
  -- The object.
  object_id,
  run_id,
  -- The category.
  category,
  -- The evidence: role, lifetime, or stack and lifetime. Null for other.
  category_source,
  -- The part of the step that allocated it: setup, forward, backward or optimizer. Null if unknown.
  part
) AS
WITH called AS (
  SELECT
    s.pystates_hash,
    bool_or(regexp_like(f.file, '(^|/)torch/optim/')) AS is_optimizer,
    bool_or(regexp_like(f.file, '(^|/)torch/(autograd|_tensor)') AND f.function LIKE '%backward%') AS is_backward,
    bool_or(regexp_like(f.file, '(^|/)torch/nn/modules/') AND (f.function IN ('_call_impl', 'forward') OR f.function LIKE '%.forward'))
      AS is_forward,
    bool_or(regexp_like(f.file, '(^|/)torch/nn/') AND (
      f.function IN ('__init__', '_apply', 'to', 'cuda', 'reset_parameters', 'load_state_dict')
      OR regexp_like(f.function, '[.](__init__|_apply|to|cuda|reset_parameters|load_state_dict)$'))) AS is_setup
  FROM python_state s
  JOIN python_frame f ON f.frame_id = s.frame_id
  GROUP BY s.pystates_hash
), role AS (
  SELECT
    storage_id,
    min(CASE role WHEN 'parameter' THEN 1 WHEN 'gradient' THEN 2 WHEN 'optimizer_state' THEN 3 WHEN 'buffer' THEN 4
      WHEN 'argument' THEN 5 WHEN 'result' THEN 6 WHEN 'temporary' THEN 7 END) AS place
  FROM tensor
  GROUP BY storage_id
), recorded AS (
  SELECT DISTINCT run_id FROM tensor
), placed AS (
  SELECT
    m.object_id, m.run_id, m.device_id, m.alloc_ordinal, m.free_ordinal, r.place,
    coalesce(m.free_ordinal > e.ordinal, false) AS is_held_to_end,
    n.run_id IS NOT NULL AND r.storage_id IS NULL AND m.free_ordinal IS NULL AND m.origin = 'allocator' AS is_workspace,
    CASE WHEN o.phase IN ('backward', 'optimizer') THEN CAST(o.phase AS VARCHAR)
      WHEN c.is_optimizer THEN 'optimizer'
      WHEN c.is_backward THEN 'backward'
      WHEN o.phase = 'forward' AND o.module_path IS NOT NULL OR c.is_forward THEN 'forward'
      WHEN c.is_setup THEN 'setup'
      WHEN o.phase = 'forward' THEN 'forward' END AS part,
    CASE WHEN o.phase IN ('backward', 'optimizer', 'forward') THEN 'lifetime' ELSE 'stack and lifetime' END AS evidence
  FROM memory_object m
  LEFT JOIN op o ON o.op_id = m.op_id
  LEFT JOIN called c ON c.pystates_hash = o.pystates_hash
  LEFT JOIN role r ON r.storage_id = m.storage_id
  LEFT JOIN recorded n ON n.run_id = m.run_id
  LEFT JOIN (SELECT run_id, max(ordinal) AS ordinal FROM launch GROUP BY run_id) e ON e.run_id = m.run_id
), later AS (
  SELECT
    *,
    min(CASE WHEN part = 'backward' THEN alloc_ordinal END) OVER behind AS backward_ordinal,
    min(CASE WHEN part IN ('optimizer', 'forward') THEN alloc_ordinal END) OVER behind AS step_ordinal
  FROM placed
  WINDOW behind AS (
    PARTITION BY run_id, device_id ORDER BY alloc_ordinal, object_id ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING
  )
), named AS (
  SELECT
    *,
    CASE
      WHEN is_workspace THEN 'workspaces'
      WHEN part = 'forward' AND (free_ordinal IS NULL OR free_ordinal > backward_ordinal) THEN 'activations'
      WHEN part = 'backward' AND (free_ordinal IS NULL OR free_ordinal > step_ordinal) THEN 'gradients'
      WHEN part = 'optimizer' AND free_ordinal IS NULL THEN 'optimizer state'
      WHEN part = 'setup' AND free_ordinal IS NULL THEN 'parameters'
      WHEN is_held_to_end AND part IS NOT NULL THEN 'held to the end'
      WHEN part IS NOT NULL THEN 'temporaries'
    END AS lived
  FROM later
)
SELECT
  object_id, run_id,
  CASE place WHEN 1 THEN 'parameters' WHEN 2 THEN 'gradients' WHEN 3 THEN 'optimizer state' WHEN 4 THEN 'buffers'
    WHEN 5 THEN 'arguments' WHEN 6 THEN 'results' WHEN 7 THEN 'temporaries' ELSE coalesce(lived, 'other') END,
  CASE WHEN place IS NOT NULL THEN 'role' WHEN lived IS NOT NULL THEN evidence END,
  part
FROM named
