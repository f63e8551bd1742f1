-- One op with its lines and its module.
CREATE VIEW op_context (
  -- The op.
  op_id,
  -- Its name.
  op,
  phase,
  -- Optimizer steps completed before.
  step,
  -- Dotted path of the module, in backward of the module whose gradient this is. Null outside modules.
  module_path,
  -- The innermost line around it in the user's code.
  line,
  -- In backward, the line whose gradient this is. Null where autograd calls `line`, as in `python_line`.
  forward_line,
  -- The line to look at: forward_line with (grad) appended if there is one, else line.
  source_line
) AS
SELECT
  o.op_id, o.name, o.phase, o.step, coalesce(o.module_path, g.module_path), p.line, q.line,
  line_label(p.line, q.line)
FROM op o
LEFT JOIN op g ON g.op_id = o.forward_op_id
LEFT JOIN python_line p ON p.pystates_hash = o.pystates_hash
LEFT JOIN python_line q ON q.pystates_hash = g.pystates_hash AND NOT coalesce(p.is_in_backward, false)
