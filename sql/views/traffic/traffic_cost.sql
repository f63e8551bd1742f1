-- Samples of memory stalls of a launch by the traffic of one target: the sum of `traffic_charge` over its instructions.
CREATE VIEW traffic_cost (
  kernel_id,
  -- The kind of the target: tensor, storage, allocation. Null for samples without target.
  target,
  -- The target: a tensor, a storage or an allocation. Null without target.
  object_id,
  -- Samples.
  samples,
  -- The GPU time that they represent, nanoseconds. Null if times are not known.
  time_ns
) AS
SELECT
  c.kernel_id, c.target, coalesce(c.tensor_id, c.storage_id, c.allocation_id), sum(c.samples),
  sum(c.samples * t.sample_ns)
FROM traffic_charge c
LEFT JOIN cost_time t ON t.run_id = c.run_id AND t.kernel_id = c.kernel_id
WHERE c.is_memory
GROUP BY c.kernel_id, c.target, coalesce(c.tensor_id, c.storage_id, c.allocation_id)
