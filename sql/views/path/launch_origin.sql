-- One operation that one launch computes, with its share of the launch. A launch of eager code computes its op, a kernel by
-- torch.compile several operations. The shares of a launch add up to 1.
CREATE VIEW launch_origin (
  kernel_id,
  -- 0 for the operation that stands for the launch.
  rank,
  -- The operation. Null outside ops.
  op,
  -- Its phase of the training step.
  phase,
  -- In backward, the forward operation whose gradient it computes.
  forward_op,
  -- Dotted path of its module, in backward of the module whose gradient this is.
  module_path,
  -- The user's line, in backward the line whose gradient it computes.
  line,
  -- Its share of the launch.
  weight,
  -- True if torch.compile recorded the operation with its line.
  is_traced,
  -- The line of generated code that launched it, as file:line function. Null in eager code.
  generated_line
) AS
WITH generated AS (
  SELECT DISTINCT frame_id FROM compiled_origin
), called AS (
  -- The innermost call by generated code.
  SELECT s.pystates_hash, first_value(s.frame_id ORDER BY s.depth) AS frame_id
  FROM python_state s
  JOIN generated g ON g.frame_id = s.frame_id
  GROUP BY s.pystates_hash
), operation AS (
  SELECT
    o.frame_id, o.rank, o.op, CAST(o.phase AS VARCHAR) AS phase, o.forward_op, o.module_path, o.weight,
    o.phase IS NOT NULL AS is_traced,
    -- If it was a library's function that was compiled, the user's line is that of its call.
    CASE WHEN s.user_frames IS NOT NULL THEN s.line END AS line,
    f.file || ':' || CAST(f.line AS VARCHAR) || ' ' || f.function AS generated_line
  FROM compiled_origin o
  JOIN python_frame f ON f.frame_id = o.frame_id
  LEFT JOIN python_stack s ON s.pystates_hash = o.pystates_hash
)
SELECT
  l.kernel_id,
  coalesce(o.rank, 0),
  coalesce(o.op, l.op),
  coalesce(o.phase, CAST(l.phase AS VARCHAR)),
  CASE WHEN o.frame_id IS NOT NULL THEN o.forward_op ELSE g.name END,
  CASE WHEN o.frame_id IS NOT NULL THEN coalesce(o.module_path, l.module_path) ELSE l.module_path END,
  coalesce(o.line, l.forward_line, l.line),
  coalesce(o.weight, 1.0),
  coalesce(o.is_traced, false),
  o.generated_line
FROM launch_context l
LEFT JOIN op p ON p.op_id = l.op_id
LEFT JOIN op g ON g.op_id = p.forward_op_id
LEFT JOIN called c ON c.pystates_hash = l.pystates_hash
LEFT JOIN operation o ON o.frame_id = c.frame_id
