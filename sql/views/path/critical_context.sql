-- One piece of the critical path of a step, as in `critical_segment`, with names: its item, and the line that it leads to.
--
-- Pieces of a step add up to its time.
CREATE VIEW critical_context (
  -- The timeline run whose step it is.
  run_id,
  -- Position in all paths of the run.
  position,
  -- The step. Null in a program that repeats nothing.
  program_step,
  -- The rank in which the piece is. Null outside distributed programs.
  rank,
  -- The kind, as in `critical_segment`.
  kind,
  -- The kernel, op or direction of a copy. Else the kind in words.
  item,
  begin_ns,
  duration_ns,
  -- The work, as in `gpu_activity`.
  activity_id,
  -- The launch: its kernel runs, or the piece leads to it.
  kernel_id,
  -- The innermost op on the host.
  op_id,
  -- The line of that launch.
  line,
  -- The reason why the next piece follows.
  relation
) AS
SELECT
  s.run_id, s.position, s.program_step, r.rank, s.kind,
  CASE
    WHEN s.kind IN ('kernel', 'collective') THEN coalesce(n.short_kernel, a.kernel_name, 'kernel of no launch')
    WHEN s.kind = 'copy' THEN coalesce(CAST(a.copy_kind AS VARCHAR), 'other')
    WHEN s.kind = 'host' THEN coalesce(o.name, 'code outside of ops')
    ELSE CAST(s.kind AS VARCHAR)
  END,
  s.begin_ns, s.duration_ns, s.activity_id, s.kernel_id, s.op_id, c.line, s.relation
FROM critical_segment s
JOIN run r ON r.run_id = s.at_run_id
LEFT JOIN launch l ON l.kernel_id = s.kernel_id
LEFT JOIN kernel_name n ON n.function_id = l.function_id
LEFT JOIN gpu_activity a ON a.run_id = s.at_run_id AND a.activity_id = s.activity_id
LEFT JOIN op o ON o.op_id = s.op_id
LEFT JOIN launch_context c ON c.kernel_id = s.kernel_id
