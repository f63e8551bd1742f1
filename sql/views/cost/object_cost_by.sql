-- What one object cost by one key of the launches that waited for it: op, module, line, phase, step or kernel.
--
-- Every sample is there once for each key, with the stalls that no object bears: the rows of one key sum to the samples
-- taken. Filter by `key`, and sum over objects to see a key alone.
CREATE VIEW object_cost_by (
  -- What the launches are told apart by: op, module, line, phase, step, kernel.
  key,
  -- The op, module path, line (in backward the line whose gradient it is), phase, step or kernel; null where the launch
  -- has none.
  value,
  -- What the object is: tensor, storage, outside any tensor; as in `object_cost`.
  target,
  -- Its tensor_id, storage_id or allocation_id.
  object_id,
  -- Why no object bears it, in words; null where one does.
  remainder,
  -- Its name; what made it where it has none.
  object,
  -- Element type and shape of a tensor, bytes of everything else.
  type,
  -- The line that made it.
  born_at,
  -- Samples charged.
  samples,
  -- Part of all samples.
  share,
  -- Samples of memory stalls.
  memory_samples,
  -- Estimated time of the GPU, nanoseconds.
  estimated_ns
) AS
WITH summed AS (
  SELECT
    -- One of the grouping sets below each: the bits of what a row is not grouped by.
    grouping(op, module_path, place, phase, step, kernel) AS kind,
    target, object_id, remainder, op, module_path, place, phase, step, kernel,
    sum(samples) AS samples, sum(memory_samples) AS memory_samples, sum(estimated_ns) AS estimated_ns
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
  s.memory_samples, s.estimated_ns
FROM summed s
LEFT JOIN target_context t ON t.target = s.target AND t.object_id = s.object_id
