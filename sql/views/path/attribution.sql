-- Launches of the program that got their line, their op or their layer by one means, or lack it for one reason. Trials of
-- tuners are left out. Ordered by `time_ns` where `means` is null, it ranks what has none.
CREATE VIEW attribution (
  -- line, op or layer.
  subject,
  -- The means, as in `launch_attribution`. Null of launches that lack it.
  means,
  -- The reason where it is missing.
  missing,
  launch_count,
  -- Their GPU time, nanoseconds. See `launch_time`.
  time_ns,
  -- Their part of the GPU time of all launches.
  time_share
) AS
WITH timed AS (
  SELECT a.*, t.time_ns
  FROM launch_attribution a
  LEFT JOIN launch_time t ON t.kernel_id = a.kernel_id
  WHERE NOT a.is_trial
), subject AS (
  SELECT 'line' AS subject, line_by AS means, line_missing AS missing, time_ns FROM timed
  UNION ALL
  SELECT 'op', op_by, op_missing, time_ns FROM timed
  UNION ALL
  SELECT 'layer', layer_by, layer_missing, time_ns FROM timed
)
SELECT
  subject, means, missing, count(*), sum(time_ns),
  sum(time_ns) / nullif(sum(sum(time_ns)) OVER (PARTITION BY subject), 0.0)
FROM subject
GROUP BY subject, means, missing
