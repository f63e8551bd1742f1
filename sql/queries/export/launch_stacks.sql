-- Samples of launches
-- One row per launch, stall reason and object, for the time of the launch. Unattributed samples have the name of their
-- remainder instead of an object. All rows add up to the samples.
WITH charged AS (
  SELECT
    kernel_id, stall_reason, charge, target, tensor_id, storage_id, allocation_id, sum(samples) AS samples
  FROM stall_charge
  GROUP BY kernel_id, stall_reason, charge, target, tensor_id, storage_id, allocation_id
), remainders AS (
  SELECT DISTINCT charge, target, remainder FROM tensor_cost WHERE remainder IS NOT NULL
), named AS (
  SELECT
    c.kernel_id, c.stall_reason,
    coalesce(o.label, r.remainder, '(' || coalesce(c.target, c.charge) || ')') AS object,
    c.samples
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
SELECT n.kernel_id, p.frames, p.ops, p.kernel, n.stall_reason, n.object, sum(n.samples) AS samples
FROM named n
LEFT JOIN call_path_cost p ON p.kernel_id = n.kernel_id
GROUP BY n.kernel_id, p.frames, p.ops, p.kernel, n.stall_reason, n.object
ORDER BY n.kernel_id, n.stall_reason, n.object
