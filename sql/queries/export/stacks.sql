-- Samples of call paths
-- One row per path: Python frames, ops, kernel, source line, stall reason and object. Unattributed samples have the
-- name of their remainder instead of an object. Launches without samples have neither reason nor object, and their time.
-- All rows add up to the samples, and to the time.
WITH charged AS (
  SELECT
    p.frames, p.ops, p.kernel, i.file, i.line, c.stall_reason, c.is_memory, c.charge, c.target, c.tensor_id, c.storage_id,
    c.allocation_id,
    sum(c.samples) AS samples,
    sum(c.samples * t.sample_ns) AS time_ns
  FROM stall_charge c
  LEFT JOIN call_path_cost p ON p.kernel_id = c.kernel_id
  LEFT JOIN instruction i ON i.function_id = c.function_id AND i.pc = c.pc
  LEFT JOIN cost_time t ON t.run_id = c.run_id AND t.kernel_id = c.kernel_id
  GROUP BY p.frames, p.ops, p.kernel, i.file, i.line, c.stall_reason, c.is_memory, c.charge, c.target, c.tensor_id,
    c.storage_id, c.allocation_id
), remainders AS (
  SELECT DISTINCT charge, target, remainder FROM tensor_cost WHERE remainder IS NOT NULL
), named AS (
  SELECT
    c.frames, c.ops, c.kernel, c.file, c.line, c.stall_reason, c.is_memory,
    coalesce(o.label, r.remainder, '(' || coalesce(c.target, c.charge) || ')') AS object,
    c.samples, c.time_ns
  FROM charged c
  LEFT JOIN target_context o
    ON o.object_id = coalesce(c.tensor_id, c.storage_id, c.allocation_id)
    AND o.target = CASE
      WHEN c.tensor_id IS NOT NULL THEN 'tensor'
      WHEN c.storage_id IS NOT NULL THEN 'storage'
      ELSE 'outside any tensor'
    END
  LEFT JOIN remainders r
    ON o.object_id IS NULL AND r.charge = c.charge AND coalesce(r.target, '') = coalesce(c.target, '')
)
SELECT
  frames, ops, kernel, file, line, stall_reason, object,
  sum(samples) AS samples,
  sum(CASE WHEN is_memory THEN samples ELSE 0.0 END) AS memory_samples,
  sum(time_ns) AS time_ns, 0 AS launches
FROM named
GROUP BY frames, ops, kernel, file, line, stall_reason, object
UNION ALL
SELECT frames, ops, kernel, NULL, NULL, NULL, NULL, 0.0, 0.0, sum(time_ns), count(*)
FROM call_path_cost
WHERE time_ns > 0.0 AND kernel_id NOT IN (SELECT kernel_id FROM stall_charge)
GROUP BY frames, ops, kernel
ORDER BY frames, ops, kernel, file, line, stall_reason, object
