-- One number of the ranges of one name: its sum, and its rate over the GPU time of their launches.
--
-- A rate is a ratio of sums, over the executions whose launches all have a time. A launch belongs to the innermost range
-- that has the number, as in `launch_metric`.
CREATE VIEW range_metric (
  -- Name of the ranges.
  range_name,
  -- Name of the number.
  metric,
  -- Its unit. Null where the program names none.
  unit,
  -- Executions that have the number.
  range_count,
  -- Sum over them.
  value,
  -- Executions with launches whose times are known.
  timed_count,
  -- Sum over these.
  timed_value,
  -- Launches of these.
  launch_count,
  -- GPU time of these launches, nanoseconds.
  time_ns,
  -- True if every one of these times was measured, not estimated.
  is_measured,
  -- `timed_value` per second of GPU time.
  rate_per_second
) AS
WITH launched AS (
  SELECT
    m.op_id, m.metric, count(*) AS launch_count, sum(m.time_ns) AS time_ns, bool_and(t.is_measured) AS is_measured,
    count(m.time_ns) = count(*) AS is_timed
  FROM launch_metric m
  JOIN launch_time t ON t.kernel_id = m.kernel_id
  GROUP BY m.op_id, m.metric
), summed AS (
  SELECT
    o.name AS range_name, m.name AS metric, max(m.unit) AS unit,
    count(*) AS range_count, sum(m.value) AS value,
    count(l.op_id) AS timed_count, sum(CASE WHEN l.op_id IS NOT NULL THEN m.value END) AS timed_value,
    sum(l.launch_count) AS launch_count, sum(l.time_ns) AS time_ns, bool_and(l.is_measured) AS is_measured
  FROM op_metric m
  JOIN op o ON o.op_id = m.op_id
  -- Further runs of the program repeat its ranges.
  JOIN (SELECT DISTINCT run_id FROM launch) d ON d.run_id = o.run_id
  LEFT JOIN (SELECT * FROM launched WHERE is_timed) l ON l.op_id = m.op_id AND l.metric = m.name
  GROUP BY o.name, m.name
)
SELECT
  range_name, metric, unit, range_count, value, timed_count, timed_value, launch_count, time_ns, is_measured,
  timed_value * 1e9 / nullif(time_ns, 0.0)
FROM summed
