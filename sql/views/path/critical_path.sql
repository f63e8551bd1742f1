-- One item of the critical paths of a run: a kernel, an op of the host, a kind of copy or wait, over all its steps.
--
-- `path_ns` of all items adds up to `steps_ns`. `saving_ns` is not a sum of these: without an item, other work comes first.
CREATE VIEW critical_path (
  -- The timeline run.
  run_id,
  -- Its rank. Null outside distributed programs.
  rank,
  -- The kind, as in `critical_segment`.
  kind,
  -- The function of a kernel or collective.
  function_id,
  -- The kernel, op or direction of a copy. Else the kind.
  item,
  -- Steps whose path has the item.
  step_count,
  -- Pieces of paths.
  segment_count,
  -- Time on the path, nanoseconds.
  path_ns,
  -- Length of all steps of the run.
  steps_ns,
  -- Part of the steps' time.
  path_share,
  -- Time by which the steps are shorter if the item takes no time and everything else comes when it can. Null if it was
  -- computed for no step. A lower bound if only for some.
  saving_ns,
  -- Steps for which it was computed.
  saving_step_count
) AS
WITH whole AS (
  SELECT run_id, sum(path_ns) AS ns FROM critical_item GROUP BY run_id
), summed AS (
  SELECT
    run_id, kind, function_id, name, count(*) AS steps, sum(segment_count) AS segments, sum(path_ns) AS path_ns,
    sum(step_ns - without_ns) AS saving_ns, count(without_ns) AS computed
  FROM critical_item
  GROUP BY run_id, kind, function_id, name
)
SELECT
  s.run_id, r.rank, s.kind, s.function_id,
  CASE
    WHEN s.kind IN ('kernel', 'collective') THEN coalesce(n.short_kernel, 'kernel of no launch')
    WHEN s.kind = 'copy' THEN coalesce(s.name, 'other')
    WHEN s.kind = 'host' THEN coalesce(s.name, 'code outside of ops')
    ELSE CAST(s.kind AS VARCHAR)
  END,
  s.steps, s.segments, s.path_ns, w.ns, CAST(s.path_ns AS DOUBLE) / nullif(CAST(w.ns AS DOUBLE), 0.0), s.saving_ns, s.computed
FROM summed s
JOIN whole w ON w.run_id = s.run_id
JOIN run r ON r.run_id = s.run_id
LEFT JOIN kernel_name n ON n.function_id = s.function_id
