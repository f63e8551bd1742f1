-- Memory's part of one launch's time: the shares that device memory, L2, its requests, L1 and the busiest atomics need at
-- their rates.
--
-- Bytes are those of `launch_traffic`. Those of device memory are counters of replays where these were measured. A share
-- above 1 is an error of the model, which `coverage` counts. Launches without a measured time have no row.
CREATE VIEW launch_limit (
  kernel_id,
  -- Its measured time, nanoseconds.
  time_ns,
  -- The busiest: device memory, L2, L2 requests, L1, atomics.
  resource,
  -- Its share of the time, 1 where the model has more.
  busy_share,
  -- Share of device memory.
  device_share,
  -- Share of L2, by the bytes that it answers.
  l2_share,
  -- Share of L2, by the requests that it takes.
  request_share,
  -- Share of the L1s of the multiprocessors that have a block.
  l1_share,
  -- Share of the slices of L2 that apply atomics.
  atomic_share
) AS
WITH busy AS (
  SELECT
    kernel_id, sum(l1_ns) AS l1_ns, sum(l2_ns) AS l2_ns, sum(request_ns) AS request_ns, sum(device_ns) AS device_ns,
    sum(atomic_ns) AS atomic_ns
  FROM launch_traffic
  GROUP BY kernel_id
), part AS (
  SELECT
    b.kernel_id, t.time_ns,
    -- Nine tenths of the peak, as in `memory_rate`.
    coalesce((w.dram_read_bytes + w.dram_write_bytes) / nullif(0.9 * w.dram_peak_bytes, 0.0), b.device_ns / t.time_ns)
      AS device_share,
    b.l2_ns / t.time_ns AS l2_share, b.request_ns / t.time_ns AS request_share, b.l1_ns / t.time_ns AS l1_share,
    b.atomic_ns / t.time_ns AS atomic_share
  FROM busy b
  JOIN measured_time t ON t.kernel_id = b.kernel_id
  LEFT JOIN launch_work w ON w.kernel_id = b.kernel_id
  WHERE t.time_ns > 0.0
)
SELECT
  kernel_id, time_ns,
  CASE greatest(device_share, l2_share, request_share, l1_share, atomic_share)
    WHEN device_share THEN 'device memory'
    WHEN l2_share THEN 'L2'
    WHEN request_share THEN 'L2 requests'
    WHEN l1_share THEN 'L1'
    ELSE 'atomics'
  END,
  least(greatest(device_share, l2_share, request_share, l1_share, atomic_share), 1.0), device_share, l2_share, request_share, l1_share,
  atomic_share
FROM part
