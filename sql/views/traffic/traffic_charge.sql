-- Samples of one launch and memory stall, attributed to one instruction and target: the cost of its accesses.
--
-- A stall names the load that a warp waits for: `waited_samples`, as in `launch_charge`. Where memory is busy, this load is
-- late because of all traffic, stores among it. `busy_share` of `traffic_share` is the utilization of the launch's busiest
-- resource: the probability that an arriving request has to queue. This part of the stalls that reach an object is shared
-- by traffic, and the rest by waiting. Both columns have the same sum for each launch and stall reason, which
-- `cost_violation` checks. Without a measured time or recorded accesses they are equal.
CREATE VIEW traffic_charge (
  -- The run that took the samples.
  run_id,
  kernel_id,
  -- The memory stall. Null for all reasons that are none.
  stall_reason,
  -- True for memory stalls.
  is_memory,
  -- The function of the instruction. Null without one.
  function_id,
  pc,
  -- tensor, or unattributed, as in `stall_charge`.
  charge,
  -- Target of the lanes, as in `stall_charge`.
  target,
  storage_id,
  -- The tensor. Null if there is none.
  tensor_id,
  -- The driver allocation of the lanes, outside any tensor.
  allocation_id,
  -- Samples of warps that wait for it.
  waited_samples,
  -- Samples by traffic, and by waiting for the rest.
  samples,
  -- Weight of one sample of the run, as in `cost_run`.
  scale
) AS
WITH busy AS (
  SELECT kernel_id, max(busy_share) AS busy_share FROM traffic_share GROUP BY kernel_id
), stalled AS (
  SELECT c.run_id, c.kernel_id, c.stall_reason, max(b.busy_share) * sum(c.samples) AS samples, max(c.scale) AS scale
  FROM busy b
  JOIN launch_charge c ON c.kernel_id = b.kernel_id
  WHERE coalesce(c.tensor_id, c.storage_id, c.allocation_id) IS NOT NULL
  GROUP BY c.run_id, c.kernel_id, c.stall_reason
)
SELECT
  c.run_id, c.kernel_id, c.stall_reason, c.is_memory, c.producer_function_id, c.producer_pc, c.charge, c.target,
  c.storage_id, c.tensor_id, c.allocation_id, c.samples,
  CASE WHEN coalesce(c.tensor_id, c.storage_id, c.allocation_id) IS NULL THEN c.samples
       ELSE c.samples * (1.0 - coalesce(b.busy_share, 0.0)) END,
  c.scale
FROM launch_charge c
LEFT JOIN busy b ON b.kernel_id = c.kernel_id
UNION ALL
SELECT
  s.run_id, s.kernel_id, s.stall_reason, true, t.function_id, t.pc,
  CASE WHEN t.tensor_id IS NULL THEN 'no tensor' ELSE 'tensor' END, t.target, t.storage_id, t.tensor_id,
  t.allocation_id, 0.0, s.samples * t.share, s.scale
FROM stalled s
JOIN traffic_share t ON t.kernel_id = s.kernel_id
