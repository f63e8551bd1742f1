-- One name at one level, wherever it is in call paths: what ends there, and what comes through it.
CREATE VIEW path_flat (
  -- The level, as in `call_path`.
  level,
  -- The name.
  name,
  -- Paths that it is in.
  path_count,
  -- Launches, inclusive: all that come through it.
  launch_count,
  -- Samples, inclusive; a path that has the name more than once, by recursion, counts once.
  samples,
  -- Samples of launches whose path ends there: exclusive. Of all rows, they sum to the samples taken.
  own_samples,
  -- Inclusive part of all samples; of all rows, they sum to more than 1.
  share,
  -- Samples of memory stalls, inclusive.
  memory_samples,
  -- Estimated time of the GPU, nanoseconds, inclusive; see `cost_time`.
  estimated_ns
) AS
WITH summed AS (
  SELECT
    level, name, count(*) AS path_count, sum(launch_count) AS launch_count, sum(samples) AS samples,
    sum(CASE WHEN level = 'kernel' THEN samples ELSE 0.0 END) AS own_samples,
    sum(memory_samples) AS memory_samples, sum(estimated_ns) AS estimated_ns
  FROM path_step
  WHERE depth > 0 AND is_first
  GROUP BY level, name
)
SELECT
  level, name, path_count, launch_count, samples, own_samples,
  samples / nullif(sum(own_samples) OVER (), 0.0), memory_samples, estimated_ns
FROM summed
