-- Aggregated counters of ops
-- One row per name of an op: sums and means over its launches with a measured duration, by Operator Profiler's formulas.
SELECT o.*, l.measured_count
FROM op_counters o
JOIN (
  SELECT x.op, count(d.duration_ns) AS measured_count
  FROM launch_context x
  LEFT JOIN launch_duration d ON d.kernel_id = x.kernel_id
  GROUP BY x.op
) l ON l.op = o.op
ORDER BY o.op
