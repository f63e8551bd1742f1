-- Part of one instruction and target in the traffic that keeps memory busy in one launch.
--
-- Launches have rows if their bytes need a tenth or more of their measured time. Shares of a launch sum to 1. They are of
-- bytes at the busiest resource of `launch_limit`: device memory or L2, of lines at L1, or of turns of atomics at slices of L2.
CREATE VIEW traffic_share (
  -- The launch.
  kernel_id,
  -- The function.
  function_id,
  -- The instruction.
  pc,
  -- Target of the lanes, as in `pc_tensor`.
  target,
  -- The storage.
  storage_id,
  -- The tensor.
  tensor_id,
  -- The driver allocation, outside any tensor.
  allocation_id,
  -- The busiest resource, as in `launch_limit`.
  resource,
  -- Its utilization.
  busy_share,
  -- Part of the traffic at this resource.
  share
) AS
WITH busy AS (
  SELECT
    t.kernel_id, t.function_id, t.pc, t.target, t.storage_id, t.tensor_id, t.allocation_id, l.resource,
    l.busy_share,
    CASE l.resource
      WHEN 'device memory' THEN t.device_ns
      WHEN 'L2' THEN t.l2_ns
      WHEN 'L1' THEN t.l1_ns
      ELSE t.atomic_ns
    END AS ns
  FROM launch_limit l
  JOIN launch_traffic t ON t.kernel_id = l.kernel_id
  WHERE l.busy_share >= 0.1
), whole AS (
  SELECT kernel_id, sum(ns) AS ns FROM busy GROUP BY kernel_id
)
SELECT
  b.kernel_id, b.function_id, b.pc, b.target, b.storage_id, b.tensor_id, b.allocation_id, b.resource, b.busy_share,
  b.ns / w.ns
FROM busy b
JOIN whole w ON w.kernel_id = b.kernel_id
WHERE b.ns > 0.0
