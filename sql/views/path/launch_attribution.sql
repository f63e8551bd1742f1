-- One launch: the means by which it got its line, its op and its layer, and the reason for each that it lacks.
CREATE VIEW launch_attribution (
  -- The launch.
  kernel_id,
  -- True for the trial of a tuner, which is no work of the program.
  is_trial,
  -- The user's line, in backward the line whose gradient it computes. A library's where no frame is the user's.
  line,
  -- Means of the line: compiled origin (torch.compile's own record), forward op (autograd's number), python stack, library
  -- frame (no frame is the user's). Null without a line.
  line_by,
  -- Share of the launch that the line stands for: kernels of torch.compile may compute several lines.
  line_weight,
  -- The op. In compiled code the operation that stands for the kernel.
  op,
  -- Means of the op: compiled origin, operator (the dispatcher), triton (a launch from Python), region, tuning. Null without an op.
  op_by,
  -- Dotted path of the module.
  layer,
  -- Means of the layer: compiled origin, forward op, module call. Null without a layer.
  layer_by,
  -- Reason for the missing line.
  line_missing,
  -- Reason for the missing op.
  op_missing,
  -- Reason for the missing layer.
  layer_missing
) AS
WITH root AS (
  SELECT * FROM launch_origin WHERE rank = 0
), weighed AS (
  SELECT o.kernel_id, sum(o.weight) AS weight
  FROM launch_origin o
  JOIN root r ON r.kernel_id = o.kernel_id AND r.line IS NOT DISTINCT FROM o.line
  GROUP BY o.kernel_id
), fact AS (
  SELECT
    l.kernel_id, l.op_id, l.pystates_hash, l.phase, r.line, r.op, r.module_path, w.weight,
    r.is_traced, r.generated_line IS NOT NULL AS is_compiled,
    coalesce(p.setup_part = 'tuning', false) AS is_trial,
    o.kind, o.module_path AS own_module, o.forward_op_id, l.forward_line, s.user_frames IS NOT NULL AS has_user,
    CAST(n.instrument AS VARCHAR) <> 'accesses' AND h.has_accesses AS is_unmatched,
    regexp_like(s.frames[-1], '(^|/)[a-z2-7]{2}/c[a-z2-7]{51}[.]py:') AS is_generated
  FROM launch_context l
  JOIN root r ON r.kernel_id = l.kernel_id
  LEFT JOIN weighed w ON w.kernel_id = l.kernel_id
  LEFT JOIN launch_phase p ON p.kernel_id = l.kernel_id
  LEFT JOIN op o ON o.op_id = l.op_id
  LEFT JOIN python_stack s ON s.pystates_hash = l.pystates_hash
  LEFT JOIN run n ON n.run_id = l.run_id
  CROSS JOIN (SELECT coalesce(bool_or(CAST(instrument AS VARCHAR) = 'accesses'), false) AS has_accesses FROM run LIMIT 1) h
)
SELECT
  kernel_id, is_trial,
  line,
  CASE
    WHEN line IS NULL THEN NULL
    WHEN is_traced THEN 'compiled origin'
    WHEN forward_line IS NOT NULL THEN 'forward op'
    WHEN has_user THEN 'python stack'
    ELSE 'library frame'
  END,
  weight,
  op,
  CASE
    WHEN op IS NULL THEN NULL
    WHEN is_compiled THEN 'compiled origin'
    WHEN kind = 'torch' THEN 'operator'
    ELSE CAST(kind AS VARCHAR)
  END,
  module_path,
  CASE
    WHEN module_path IS NULL THEN NULL
    WHEN is_compiled THEN 'compiled origin'
    WHEN own_module IS NULL THEN 'forward op'
    ELSE 'module call'
  END,
  CASE
    WHEN line IS NOT NULL THEN NULL
    WHEN op_id IS NULL AND is_unmatched THEN 'of a run without ops, and no launch of the access run matches'
    WHEN op_id IS NULL THEN 'launched outside ops that Python ran'
    ELSE 'the op has no Python stack'
  END,
  CASE
    WHEN op IS NOT NULL THEN NULL
    WHEN is_unmatched THEN 'of a run without ops, and no launch of the access run matches'
    ELSE 'launched outside ops that Python ran'
  END,
  CASE
    WHEN module_path IS NOT NULL THEN NULL
    WHEN is_trial THEN 'trial of a tuner'
    WHEN op_id IS NULL AND is_unmatched THEN 'of a run without ops, and no launch of the access run matches'
    WHEN op_id IS NULL THEN 'launched outside ops that Python ran'
    WHEN phase = 'optimizer' THEN 'an optimizer works on parameters of all layers'
    WHEN is_generated AND NOT is_compiled THEN 'generated code without a record of its operations'
    WHEN phase = 'backward' AND forward_op_id IS NULL THEN 'gradient of an op that is not known'
    WHEN phase = 'backward' THEN 'gradient of an op outside modules'
    ELSE 'op outside modules'
  END
FROM fact
