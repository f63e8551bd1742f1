-- One thing over all captures of a fleet: the sum of its costs.
CREATE VIEW cost_total (
  -- The kind of thing: total, kernel, line, op, tensor, role.
  kind,
  -- Its name in the newest capture.
  name,
  -- Its identity in all captures, as in `trend_point`.
  series,
  -- Captures that have it.
  capture_count,
  -- Launches. Null for tensors and roles.
  launch_count,
  samples,
  memory_samples,
  time_ns
) AS
SELECT
  kind, last_value(name ORDER BY time, capture), series, count(DISTINCT capture), sum(launch_count), sum(samples),
  sum(memory_samples), sum(time_ns)
FROM trend_point
GROUP BY kind, series
