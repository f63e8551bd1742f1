-- One storage's cost with all its tensors. Memory outside storages and unattributed stalls have their own rows.
--
-- All rows add up to the samples.
CREATE VIEW storage_cost (
  -- The storage. Null outside storages.
  storage_id,
  -- Its name: that of a named tensor in it, else of its costliest tensor, else a label made from its op. Null for
  -- unattributed stalls.
  object,
  -- Label of unattributed stalls. Null for an object.
  remainder,
  -- Bytes, rounded by the allocator.
  size_bytes,
  -- The op that allocated it.
  op,
  -- Tensors in it that kernels waited for.
  tensor_count,
  -- Attributed samples.
  samples,
  -- Samples that belong to no tensor in it.
  no_tensor_samples,
  -- Samples of its costliest tensor.
  largest_samples,
  share,
  memory_samples,
  time_ns
) AS
WITH object AS (
  SELECT
    target, object_id, storage_id, tensor_id, remainder,
    sum(samples) AS samples, sum(memory_samples) AS memory_samples, sum(time_ns) AS time_ns
  FROM tensor_cost
  GROUP BY target, object_id, storage_id, tensor_id, remainder
), named AS (
  SELECT o.*, t.name FROM object o LEFT JOIN target_context t ON t.target = o.target AND t.object_id = o.object_id
), summed AS (
  SELECT
    storage_id, remainder,
    -- Allocations are objects of their own.
    CASE WHEN storage_id IS NULL THEN object_id END AS allocation_id,
    first_value(name ORDER BY tensor_id IS NULL, samples DESC, tensor_id) AS name,
    count(DISTINCT tensor_id) AS tensor_count,
    sum(samples) AS samples,
    sum(CASE WHEN tensor_id IS NULL AND storage_id IS NOT NULL THEN samples ELSE 0.0 END) AS no_tensor_samples,
    max(CASE WHEN tensor_id IS NOT NULL THEN samples END) AS largest_samples,
    sum(memory_samples) AS memory_samples,
    sum(time_ns) AS time_ns
  FROM named
  GROUP BY storage_id, remainder, CASE WHEN storage_id IS NULL THEN object_id END
)
SELECT
  c.storage_id, CASE WHEN c.remainder IS NULL THEN coalesce(c.name, 'unnamed') END, c.remainder,
  coalesce(s.size_bytes, a.size_bytes), o.name, c.tensor_count, c.samples, c.no_tensor_samples, c.largest_samples,
  c.samples / nullif(sum(c.samples) OVER (), 0.0), c.memory_samples, c.time_ns
FROM summed c
LEFT JOIN storage s ON s.storage_id = c.storage_id
LEFT JOIN op o ON o.op_id = s.op_id
LEFT JOIN device_allocation a ON a.allocation_id = c.allocation_id
