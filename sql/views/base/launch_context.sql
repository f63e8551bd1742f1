-- One launch of the program with its context: kernel, op, Python lines.
CREATE VIEW launch_context (
  kernel_id,
  -- The run that defines it.
  run_id,
  -- Position among the launches of that run.
  ordinal,
  device_id,
  -- The kernel.
  function_id,
  kernel,
  -- The innermost op or region around the launch.
  op_id,
  -- Its name.
  op,
  phase,
  -- Optimizer steps completed before.
  step,
  -- Dotted path of the module, in backward of the module whose gradient this is.
  module_path,
  -- The Python stack.
  pystates_hash,
  -- Its innermost line in the user's code. Without a stack that of the native stack, else the innermost range around the
  -- launch as `name (range)` that says more than that a step or a compiled graph ran.
  line,
  -- In backward, the line whose gradient this is. Without a stack and a range the range around the forward op. Null where
  -- autograd calls `line`, as in `python_line`.
  forward_line,
  -- The rank of its process. Null outside distributed programs.
  rank,
  -- The CUDA graph that launched it. Null for every other launch. `op`, `line` and the other context columns
  -- are those of its capture.
  graph_id,
  -- Index of the launch of that graph, from 0.
  graph_launch,
  -- Its node in that graph.
  graph_node,
  -- `forward_line`, else `line`, where it says more than the kernel. Null for the range of a step, which is around
  -- everything, and in a file that a compiler wrote, with a hash for its name.
  written_line
) AS
WITH RECURSIVE unnamed AS (
  SELECT l.op_id FROM launch l LEFT ANTI JOIN python_line p ON p.pystates_hash = l.pystates_hash WHERE l.op_id IS NOT NULL
), launch_op AS (
  -- A launch with a line needs no range.
  SELECT op_id FROM unnamed
  UNION
  SELECT o.forward_op_id FROM unnamed l JOIN op o ON o.op_id = l.op_id WHERE o.forward_op_id IS NOT NULL
), around AS (
  -- An op, and those around it up to the first range that counts.
  SELECT o.op_id AS inner_op_id, o.parent_op_id, o.name, o.kind = 'region' AND NOT regexp_like(o.name,
      '^ProfilerStep#|^Torch-Compiled Region|CompiledFxGraph|^__proton') AS is_range, 0 AS height
  FROM launch_op i
  JOIN op o ON o.op_id = i.op_id
  UNION ALL
  SELECT a.inner_op_id, o.parent_op_id, o.name, o.kind = 'region' AND NOT regexp_like(o.name,
      '^ProfilerStep#|^Torch-Compiled Region|CompiledFxGraph|^__proton'), a.height + 1
  FROM around a
  JOIN op o ON o.op_id = a.parent_op_id
  WHERE NOT a.is_range AND a.height < 255
), named_range AS (
  SELECT inner_op_id AS op_id, name || ' (range)' AS line FROM around WHERE is_range
), context AS (
  SELECT
    l.kernel_id, l.run_id, l.ordinal, l.device_id, l.function_id, f.demangled_name, l.op_id, o.name, o.phase, o.step,
    coalesce(o.module_path, g.module_path) AS module_path, l.pystates_hash,
    coalesce(p.line, CASE WHEN n.has_number THEN n.line END, u.line, n.line) AS line,
    CASE WHEN NOT coalesce(p.is_in_backward, false)
      THEN coalesce(q.line, CASE WHEN p.line IS NULL AND u.line IS NULL THEN v.line END) END AS forward_line,
    r.rank, l.graph_id, l.graph_launch, l.graph_node
  FROM launch l
  LEFT JOIN run r ON r.run_id = l.run_id
  LEFT JOIN function f ON f.function_id = l.function_id
  LEFT JOIN op o ON o.op_id = l.op_id
  LEFT JOIN op g ON g.op_id = o.forward_op_id
  LEFT JOIN python_line p ON p.pystates_hash = l.pystates_hash
  LEFT JOIN native_line n ON n.native_stack = l.native_stack
  LEFT JOIN python_line q ON q.pystates_hash = g.pystates_hash
  LEFT JOIN named_range u ON u.op_id = l.op_id
  LEFT JOIN named_range v ON v.op_id = g.op_id
)
SELECT
  *,
  CASE WHEN NOT regexp_like(coalesce(forward_line, line),
    '(^|/)c[a-z2-7]{40,}[.]py:|(^|[ _.-])(step|iteration|iter)[ _.#:-]*[0-9]* [(]range[)]$') THEN coalesce(forward_line, line) END
FROM context
