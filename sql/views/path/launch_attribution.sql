-- One launch: the means by which it got its line, its op and its layer, and the reason for each that it lacks.
CREATE VIEW launch_attribution (
  kernel_id,
  -- True for the trial of a tuner, and for what torch.compile runs while it compiles: no work of the program.
  is_trial,
  -- The line of the user or of the model (see `python_line`), in backward the line whose gradient it computes, else a
  -- library's line.
  line,
  -- Means of the line: compiled origin (torch.compile's own record), forward op (autograd's number), python stack, module
  -- frame (of a module of an installed package), library frame (of no such module either), native stack, range. Null
  -- without a line.
  line_by,
  -- Share of the launch that the line stands for: kernels of torch.compile may compute several lines.
  line_weight,
  -- The op. In compiled code the operation that stands for the kernel.
  op,
  -- Means of the op: compiled origin, operator (the dispatcher), triton (a launch from Python), region, tuning. Null without an op.
  op_by,
  -- Dotted path of the module, of several the one with most of the launch.
  layer,
  -- Means of the layer: compiled origin, forward op, module call, parameters (those of the op, as in an optimizer), outputs
  -- (what modules returned, as in a loss). Null without a layer.
  layer_by,
  -- Share of the launch that the layer stands for.
  layer_weight,
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
), layer AS (
  SELECT
    kernel_id, first_value(module_path ORDER BY weight DESC, module_path) AS module_path, max(weight) AS weight,
    first_value(layer_by ORDER BY weight DESC, module_path) AS layer_by
  FROM launch_layer
  WHERE module_path IS NOT NULL
  GROUP BY kernel_id
), compiling AS (
  -- Guards describe parameters, whose numbers are formatted for that.
  SELECT DISTINCT s.pystates_hash
  FROM python_state s
  JOIN python_frame f ON f.frame_id = s.frame_id
  WHERE f.original_file LIKE '%/torch/_dynamo/convert_frame.py'
), fact AS (
  SELECT
    l.kernel_id, l.op_id, l.pystates_hash, l.phase, r.line, r.op, y.module_path, y.layer_by, y.weight AS layer_weight, w.weight,
    r.is_traced, r.generated_line IS NOT NULL AS is_compiled,
    coalesce(p.setup_part = 'tuning', false) OR z.pystates_hash IS NOT NULL AS is_trial,
    o.kind, o.module_path AS own_module, o.forward_op_id, l.forward_line, q.owner,
    CAST(n.instrument AS VARCHAR) <> 'accesses' AND h.has_accesses AS is_unmatched,
    regexp_like(s.frames[-1], '(^|/)[a-z2-7]{2}/c[a-z2-7]{51}[.]py:') AS is_generated
  FROM launch_context l
  JOIN root r ON r.kernel_id = l.kernel_id
  LEFT JOIN weighed w ON w.kernel_id = l.kernel_id
  LEFT JOIN layer y ON y.kernel_id = l.kernel_id
  LEFT JOIN launch_phase p ON p.kernel_id = l.kernel_id
  LEFT JOIN op o ON o.op_id = l.op_id
  LEFT JOIN python_stack s ON s.pystates_hash = l.pystates_hash
  LEFT JOIN python_line q ON q.pystates_hash = l.pystates_hash
  LEFT JOIN compiling z ON z.pystates_hash = l.pystates_hash
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
    WHEN owner = 'user' THEN 'python stack'
    WHEN owner = 'module' THEN 'module frame'
    WHEN owner IS NOT NULL THEN 'library frame'
    WHEN line LIKE '% (range)' THEN 'range'
    ELSE 'native stack'
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
    WHEN layer_by IN ('parameters', 'outputs') THEN layer_by
    WHEN is_compiled THEN 'compiled origin'
    WHEN own_module IS NULL THEN 'forward op'
    ELSE 'module call'
  END,
  layer_weight,
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
    WHEN is_trial THEN 'trial of a tuner or a compiler'
    WHEN op_id IS NULL AND is_unmatched THEN 'of a run without ops, and no launch of the access run matches'
    WHEN op_id IS NULL THEN 'launched outside ops that Python ran'
    WHEN phase = 'optimizer' THEN 'no tensor of the op has the name of a parameter'
    WHEN is_generated AND NOT is_compiled THEN 'generated code without a record of its operations'
    WHEN phase = 'backward' AND forward_op_id IS NULL THEN 'gradient of an op that is not known'
    WHEN phase = 'backward' THEN 'gradient of an op outside modules'
    ELSE 'op outside modules'
  END
FROM fact
