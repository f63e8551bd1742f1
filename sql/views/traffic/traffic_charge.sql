-- Memory stalls of one launch at one instruction and target, by waiting and by traffic.
--
-- A stall names the load that a warp waits for. Where memory is busy, this load is late because of all traffic, stores
-- among it. `launch_limit.busy_share` is the utilization of the launch's busiest resource: the probability that an
-- arriving request has to queue. This part of the launch's memory stalls is shared by the bytes at that resource (of
-- atomics, by the lanes that meet), and the rest by waiting. Both columns have the same sum in a launch. Without a
-- measured time or recorded accesses they are equal.
CREATE VIEW traffic_charge (
  -- The launch.
  kernel_id,
  -- The function.
  function_id,
  -- The instruction.
  pc,
  -- Target of the lanes, as in `pc_tensor`.
  target,
  -- The tensor, storage or driver allocation.
  object_id,
  -- The tensor. Null if there is none.
  tensor_id,
  -- Samples of memory stalls that wait for it: those of `producer_charge`.
  waited_samples,
  -- Samples by traffic, and by waiting for the rest.
  samples
) AS
WITH waited AS (
  SELECT kernel_id, function_id, pc, target, object_id, tensor_id, sum(samples) AS samples
  FROM producer_charge
  WHERE is_memory AND object_id IS NOT NULL
  GROUP BY kernel_id, function_id, pc, target, object_id, tensor_id
), busy AS (
  SELECT
    t.kernel_id, t.function_id, t.pc, t.target, coalesce(t.tensor_id, t.storage_id, t.allocation_id) AS object_id,
    t.tensor_id, l.busy_share,
    CASE l.resource WHEN 'device memory' THEN t.device_ns WHEN 'L2' THEN t.l2_ns ELSE t.atomic_ns END AS ns
  FROM launch_traffic t
  JOIN launch_limit l ON l.kernel_id = t.kernel_id
), whole AS (
  SELECT kernel_id, max(busy_share) AS busy_share, sum(ns) AS ns FROM busy GROUP BY kernel_id HAVING sum(ns) > 0.0
), stalled AS (
  SELECT w.kernel_id, sum(w.samples) AS samples
  FROM waited w
  JOIN whole h ON h.kernel_id = w.kernel_id
  GROUP BY w.kernel_id
), part AS (
  SELECT
    w.kernel_id, w.function_id, w.pc, w.target, w.object_id, w.tensor_id, w.samples AS waited_samples,
    w.samples * (1.0 - coalesce(h.busy_share, 0.0)) AS samples
  FROM waited w
  LEFT JOIN whole h ON h.kernel_id = w.kernel_id
  UNION ALL
  SELECT
    b.kernel_id, b.function_id, b.pc, b.target, b.object_id, b.tensor_id, 0.0,
    s.samples * h.busy_share * b.ns / h.ns
  FROM busy b
  JOIN whole h ON h.kernel_id = b.kernel_id
  JOIN stalled s ON s.kernel_id = b.kernel_id
)
SELECT kernel_id, function_id, pc, target, object_id, tensor_id, sum(waited_samples), sum(samples)
FROM part
GROUP BY kernel_id, function_id, pc, target, object_id, tensor_id
