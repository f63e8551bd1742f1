-- One launch's GPU time: measured, or else estimated from its samples.
--
-- Every time in reports is a sum of these. See `measured_time`, and `cost_time` for the estimate.
CREATE VIEW launch_time (
  kernel_id,
  -- From start to end of one execution, nanoseconds. Null if it was neither measured nor sampled.
  time_ns,
  -- timeline, replay, import or estimate.
  source,
  -- True if it was measured.
  is_measured
) AS
WITH estimate AS (
  SELECT kernel_id, sum(time_ns) AS ns FROM sample_cost GROUP BY kernel_id
)
SELECT
  l.kernel_id, coalesce(m.time_ns, e.ns),
  CASE WHEN m.kernel_id IS NOT NULL THEN m.source WHEN e.ns IS NOT NULL THEN 'estimate' END,
  m.kernel_id IS NOT NULL
FROM launch l
LEFT JOIN measured_time m ON m.kernel_id = l.kernel_id
LEFT JOIN estimate e ON e.kernel_id = l.kernel_id
