-- One name in one category, anywhere in call paths: exclusive cost, and inclusive cost.
CREATE VIEW path_flat (
  -- The category, as in `call_path`.
  level,
  -- The name.
  name,
  -- Paths that contain it.
  path_count,
  -- Launches, inclusive.
  launch_count,
  -- Samples, inclusive. A path that has the name more than once, by recursion, counts once.
  samples,
  -- Samples of launches whose path ends there: exclusive. Over all rows, they add up to the samples.
  own_samples,
  -- Inclusive part of all samples. Over all rows, the sum exceeds 1.
  share,
  -- Samples of memory stalls, inclusive.
  memory_samples,
  -- GPU time, nanoseconds, inclusive. See `launch_time`.
  time_ns
) AS
WITH summed AS (
  SELECT
    level, name, count(*) AS path_count, sum(launch_count) AS launch_count, sum(samples) AS samples,
    sum(CASE WHEN level = 'kernel' THEN samples ELSE 0.0 END) AS own_samples,
    sum(memory_samples) AS memory_samples, sum(time_ns) AS time_ns
  FROM path_step
  WHERE depth > 0 AND is_first
  GROUP BY level, name
)
SELECT
  level, name, path_count, launch_count, samples, own_samples,
  samples / nullif(sum(own_samples) OVER (), 0.0), memory_samples, time_ns
FROM summed
