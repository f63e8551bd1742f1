-- One object's cost by one key of the launches that waited for it: op, module, line, phase, step or kernel.
--
-- Every sample counts once per key, including unattributed stalls. The rows of one key add up to the samples. Filter by
-- `key`, and sum over objects to see the key alone.
CREATE VIEW object_cost_by (
  -- The key that distinguishes launches: op, module, line, phase, step, kernel.
  key,
  -- The op, module path, line (in backward the line whose gradient it is), phase, step or kernel. Null if the launch
  -- has none.
  value,
  -- Type of the object: tensor, storage, outside any tensor, as in `object_cost`.
  target,
  -- Its tensor_id, storage_id or allocation_id.
  object_id,
  -- Label of unattributed stalls. Null for an object.
  remainder,
  -- Its name, else a label made from its op or size.
  object,
  -- Element type and shape of a tensor, bytes of everything else.
  type,
  -- The line that allocated it.
  born_at,
  -- Attributed samples.
  samples,
  -- Part of all samples.
  share,
  -- Samples of memory stalls.
  memory_samples,
  -- GPU time, nanoseconds. See `launch_time`.
  time_ns
) AS
WITH summed AS (
  SELECT
    -- One grouping set per key below: the bits of the columns that a row is not grouped by.
    grouping(op, module_path, place, phase, step, kernel) AS kind,
    target, object_id, remainder, op, module_path, place, phase, step, kernel,
    sum(samples) AS samples, sum(memory_samples) AS memory_samples, sum(time_ns) AS time_ns
  FROM (SELECT *, coalesce(forward_line || ' (grad)', line) AS place FROM tensor_cost)
  GROUP BY GROUPING SETS (
    (target, object_id, remainder, op), (target, object_id, remainder, module_path),
    (target, object_id, remainder, place), (target, object_id, remainder, phase),
    (target, object_id, remainder, step), (target, object_id, remainder, kernel)
  )
)
SELECT
  CASE s.kind WHEN 31 THEN 'op' WHEN 47 THEN 'module' WHEN 55 THEN 'line' WHEN 59 THEN 'phase' WHEN 61 THEN 'step'
    WHEN 62 THEN 'kernel' END,
  coalesce(s.op, s.module_path, s.place, CAST(s.phase AS VARCHAR), CAST(s.step AS VARCHAR), s.kernel),
  s.target, s.object_id, s.remainder,
  CASE WHEN s.remainder IS NULL THEN coalesce(t.name, 'unnamed') END,
  t.type, t.born_at,
  s.samples,
  s.samples / nullif(sum(s.samples) OVER (PARTITION BY s.kind), 0.0),
  s.memory_samples, s.time_ns
FROM summed s
LEFT JOIN target_context t ON t.target = s.target AND t.object_id = s.object_id
