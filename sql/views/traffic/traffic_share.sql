-- Part of one instruction and target in the traffic that keeps memory busy in one launch.
--
-- Launches have rows if the busiest resource of `launch_limit` needs a tenth or more of their measured time. Shares of a
-- launch sum to 1.
--
-- Two resources that are equally busy take 1.2 to 1.5 times as long as each alone (measured on an H100: 105 pairs of
-- accesses), one that is half as busy adds little: the root of the sum of squares. A part is its derivative: the parts at
-- each resource, weighed by the square of the resource's utilization.
CREATE VIEW traffic_share (
  kernel_id,
  -- The function.
  function_id,
  pc,
  -- Target of the lanes, as in `pc_tensor`.
  target,
  storage_id,
  tensor_id,
  allocation_id,
  -- The busiest resource, as in `launch_limit`.
  resource,
  -- Its utilization.
  busy_share,
  -- Part of the traffic.
  share
) AS
WITH whole AS (
  SELECT
    kernel_id, sum(l1_ns) AS l1_ns, sum(l2_ns) AS l2_ns, sum(request_ns) AS request_ns, sum(device_ns) AS device_ns,
    sum(atomic_ns) AS atomic_ns
  FROM launch_traffic
  GROUP BY kernel_id
), bounded AS (
  -- More than the measured time is an error of the model, no more utilization.
  SELECT
    kernel_id, resource, busy_share, least(device_share, 1.0) AS device_share, least(l2_share, 1.0) AS l2_share,
    least(request_share, 1.0) AS request_share, least(l1_share, 1.0) AS l1_share, least(atomic_share, 1.0) AS atomic_share
  FROM launch_limit
), weighed AS (
  -- The weight of a nanosecond at each resource.
  SELECT
    l.kernel_id, l.resource, l.busy_share, coalesce(l.device_share * l.device_share / nullif(w.device_ns, 0.0), 0.0) AS device,
    coalesce(l.l2_share * l.l2_share / nullif(w.l2_ns, 0.0), 0.0) AS l2,
    coalesce(l.request_share * l.request_share / nullif(w.request_ns, 0.0), 0.0) AS request,
    coalesce(l.l1_share * l.l1_share / nullif(w.l1_ns, 0.0), 0.0) AS l1,
    coalesce(l.atomic_share * l.atomic_share / nullif(w.atomic_ns, 0.0), 0.0) AS atomic
  FROM bounded l
  JOIN whole w ON w.kernel_id = l.kernel_id
  WHERE l.busy_share >= 0.1
), part AS (
  SELECT
    t.kernel_id, t.function_id, t.pc, t.target, t.storage_id, t.tensor_id, t.allocation_id, w.resource, w.busy_share,
    t.device_ns * w.device + t.l2_ns * w.l2 + t.request_ns * w.request + t.l1_ns * w.l1 + t.atomic_ns * w.atomic AS weight
  FROM launch_traffic t
  JOIN weighed w ON w.kernel_id = t.kernel_id
), total AS (
  SELECT kernel_id, sum(weight) AS weight FROM part GROUP BY kernel_id
)
SELECT
  p.kernel_id, p.function_id, p.pc, p.target, p.storage_id, p.tensor_id, p.allocation_id, p.resource, p.busy_share,
  p.weight / t.weight
FROM part p
JOIN total t ON t.kernel_id = p.kernel_id
WHERE p.weight > 0.0
