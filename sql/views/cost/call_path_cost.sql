-- One launch: its call path, callers first, and its cost.
--
-- The samples of all rows add up to those of the view `sample`. Launches without samples are rows too.
CREATE VIEW call_path_cost (
  kernel_id,
  -- Frames of its Python stack as file:line function, callers first, then those of `native_line`. Null if there are none. In
  -- backward, the stack of the call of backward().
  frames,
  -- Frames in the user's code, else all frames.
  user_frames,
  -- In backward, the user's frames of the forward op whose gradient this is.
  forward_frames,
  -- Dotted path of the module, in backward of the module whose gradient this is. Null outside modules.
  module_path,
  -- The phase of the training step. Null outside ops.
  phase,
  -- Optimizer steps completed before. Null outside ops.
  step,
  -- Names of the regions and ops around the launch, callers first. Null outside ops.
  ops,
  -- The kernel.
  function_id,
  kernel,
  samples,
  memory_samples,
  time_ns
) AS
WITH RECURSIVE enclosing AS (
  SELECT o.op_id AS launch_op_id, o.parent_op_id, o.name, 0 AS height
  FROM op o
  WHERE o.op_id IN (SELECT op_id FROM launch)
  UNION ALL
  -- A capture whose ops enclose each other in a cycle terminates, too.
  SELECT e.launch_op_id, o.parent_op_id, o.name, e.height + 1
  FROM enclosing e
  JOIN op o ON o.op_id = e.parent_op_id
  WHERE e.height < 255
), op_path AS (
  -- Steps of a number each, as of `ProfilerStep#7`, are one path.
  SELECT launch_op_id, array_agg(regexp_replace(name, '#(step_num=)?[0-9]+$', '') ORDER BY height DESC) AS ops
  FROM enclosing
  GROUP BY launch_op_id
), cost AS (
  SELECT
    kernel_id, sum(samples) AS samples, sum(memory_samples) AS memory_samples, sum(time_ns) AS time_ns
  FROM sample_cost
  GROUP BY kernel_id
)
SELECT
  l.kernel_id,
  CASE WHEN n.frames IS NULL THEN s.frames WHEN s.frames IS NULL THEN n.frames ELSE array_concat(s.frames, n.frames) END,
  CASE
    WHEN n.frames IS NULL THEN coalesce(s.user_frames, s.frames)
    WHEN s.frames IS NULL THEN n.frames
    ELSE array_concat(coalesce(s.user_frames, s.frames), n.frames)
  END,
  coalesce(q.user_frames, q.frames),
  l.module_path,
  l.phase, l.step,
  p.ops,
  l.function_id, l.kernel,
  coalesce(c.samples, 0.0),
  coalesce(c.memory_samples, 0.0),
  c.time_ns
FROM launch_context l
LEFT JOIN launch b ON b.kernel_id = l.kernel_id
LEFT JOIN native_line n ON n.native_stack = b.native_stack
LEFT JOIN op o ON o.op_id = l.op_id
LEFT JOIN op g ON g.op_id = o.forward_op_id
LEFT JOIN python_stack s ON s.pystates_hash = l.pystates_hash
LEFT JOIN python_stack q ON q.pystates_hash = g.pystates_hash AND l.forward_line IS NOT NULL
LEFT JOIN op_path p ON p.launch_op_id = l.op_id
LEFT JOIN cost c ON c.kernel_id = l.kernel_id
