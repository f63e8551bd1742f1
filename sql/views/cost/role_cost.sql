-- One role of tensors in the model, such as parameters or activations: the cost of the objects that have it.
--
-- Tensors without a role are grouped by the phase that created them. All rows add up to the samples.
CREATE VIEW role_cost (
  -- The role: parameter, gradient, buffer, optimizer state, activation, and others. In parentheses, the label of
  -- unattributed stalls, and of memory outside tensors.
  role,
  -- Objects that have it. 0 for unattributed stalls.
  object_count,
  -- Samples, as in `object_cost`.
  samples,
  share,
  memory_samples,
  time_ns
) AS
WITH named AS (
  SELECT
    CASE
      WHEN c.remainder IS NOT NULL THEN c.remainder
      WHEN t.tensor_id IS NULL THEN '(memory outside tensors)'
      WHEN t.role IS NOT NULL THEN replace(CAST(t.role AS VARCHAR), '_', ' ')
      WHEN o.phase = 'forward' THEN 'activation'
      WHEN o.phase IS NOT NULL THEN 'created in ' || CAST(o.phase AS VARCHAR)
      ELSE 'created outside any operator'
    END AS role,
    CASE WHEN c.remainder IS NULL THEN 1 ELSE 0 END AS objects,
    c.samples, c.memory_samples, c.time_ns
  FROM object_cost c
  LEFT JOIN tensor_context t ON c.target = 'tensor' AND t.tensor_id = c.object_id
  LEFT JOIN tensor n ON n.tensor_id = t.tensor_id
  LEFT JOIN storage s ON s.storage_id = n.storage_id
  LEFT JOIN op o ON o.op_id = coalesce(n.op_id, s.op_id)
), summed AS (
  SELECT
    role, sum(objects) AS objects, sum(samples) AS samples, sum(memory_samples) AS memory_samples,
    sum(time_ns) AS time_ns
  FROM named
  GROUP BY role
)
SELECT role, objects, samples, samples / nullif(sum(samples) OVER (), 0.0), memory_samples, time_ns
FROM summed
