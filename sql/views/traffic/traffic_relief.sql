-- One object that a launch accesses, and the time that memory needs for the launch as it is, and with fewer of these accesses.
--
-- From `launch_traffic`: the busiest of device memory, L2, its requests, L1 and atomics. Accesses in ideal order touch the
-- fewest sectors that hold their bytes, as in `pc_tensor`. Launches without a measured time have no row.
CREATE VIEW traffic_relief (
  kernel_id,
  -- Target of the lanes, as in `pc_tensor`.
  target,
  object_id,
  -- The launch's measured time, nanoseconds.
  time_ns,
  -- Time of the busiest resource, nanoseconds, no more than the launch's time.
  busy_ns,
  -- The same for the object's accesses alone.
  own_ns,
  -- The same for the launch with the object's accesses in ideal order.
  ideal_ns,
  -- The same for the launch without the object's accesses.
  without_ns,
  -- Time in which device memory reads and writes the object's accessed bytes once, nanoseconds: a copy takes no less.
  copy_ns
) AS
WITH used AS (
  SELECT
    kernel_id, target, coalesce(tensor_id, storage_id, allocation_id) AS object_id, sum(l1_ns) AS l1_ns,
    sum(l2_ns) AS l2_ns, sum(request_ns) AS request_ns, sum(device_ns) AS device_ns, sum(atomic_ns) AS atomic_ns,
    sum(device_bytes) AS device_bytes
  FROM launch_traffic
  GROUP BY kernel_id, target, coalesce(tensor_id, storage_id, allocation_id)
), ideal AS (
  SELECT
    kernel_id, CAST(target AS VARCHAR) AS target, coalesce(tensor_id, storage_id, allocation_id) AS object_id,
    CAST(sum(ideal_sectors) AS DOUBLE) / nullif(CAST(sum(sectors) AS DOUBLE), 0.0) AS share,
    32.0 * CAST(sum(ideal_sectors) AS DOUBLE) AS bytes
  FROM pc_tensor_part
  WHERE space IN ('global', 'global_async')
  GROUP BY kernel_id, CAST(target AS VARCHAR), coalesce(tensor_id, storage_id, allocation_id)
), compared AS (
  SELECT
    u.*, coalesce(i.share, 1.0) AS share, coalesce(least(1.0, i.bytes / nullif(u.device_bytes, 0.0)), 1.0) AS device_share,
    i.bytes,
    sum(u.l1_ns) OVER launch AS all_l1_ns, sum(u.l2_ns) OVER launch AS all_l2_ns,
    sum(u.request_ns) OVER launch AS all_request_ns, sum(u.device_ns) OVER launch AS all_device_ns,
    sum(u.atomic_ns) OVER launch AS all_atomic_ns
  FROM used u
  LEFT JOIN ideal i ON i.kernel_id = u.kernel_id AND i.target = u.target AND i.object_id = u.object_id
  WINDOW launch AS (PARTITION BY u.kernel_id)
), summed AS (
  SELECT
    kernel_id, target, object_id, bytes,
    greatest(all_l1_ns, all_l2_ns, all_request_ns, all_device_ns, all_atomic_ns) AS busy_ns,
    greatest(l1_ns, l2_ns, request_ns, device_ns, atomic_ns) AS own_ns,
    greatest(all_l1_ns - l1_ns * (1.0 - share), all_l2_ns - l2_ns * (1.0 - share), all_request_ns - request_ns * (1.0 - share),
      all_device_ns - device_ns * (1.0 - device_share), all_atomic_ns) AS ideal_ns,
    greatest(all_l1_ns - l1_ns, all_l2_ns - l2_ns, all_request_ns - request_ns, all_device_ns - device_ns,
      all_atomic_ns - atomic_ns) AS without_ns
  FROM compared
)
SELECT
  s.kernel_id, s.target, s.object_id, t.time_ns, least(s.busy_ns, t.time_ns),
  least(s.own_ns, t.time_ns),
  -- If the model has more traffic than time, parts of it stay in proportion.
  s.ideal_ns * least(1.0, t.time_ns / s.busy_ns), s.without_ns * least(1.0, t.time_ns / s.busy_ns),
  2.0 * s.bytes / v.device_bytes_per_ns
FROM summed s
JOIN measured_time t ON t.kernel_id = s.kernel_id
JOIN launch l ON l.kernel_id = s.kernel_id
LEFT JOIN memory_rate v ON v.run_id = l.run_id AND v.device_id = l.device_id
WHERE t.time_ns > 0.0 AND s.busy_ns > 0.0
