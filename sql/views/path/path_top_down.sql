-- One node of the top-down call tree, callers first: the cost of all launches below it.
--
-- A node's cost is that of its children plus its exclusive cost, which only kernels have. The node `whole` has all
-- samples.
CREATE VIEW path_top_down (
  -- The node, as in `path_step`.
  node_id,
  -- The node above. Null for `whole`.
  parent_node_id,
  -- Distance from the root `whole`, which has 0.
  depth,
  -- The category, as in `call_path`. `whole` at depth 0.
  level,
  -- The name. Null at depth 0.
  name,
  -- Launches, inclusive.
  launch_count,
  -- Samples, inclusive.
  samples,
  -- Samples of launches whose path ends here: exclusive.
  own_samples,
  share,
  -- Samples of memory stalls, inclusive.
  memory_samples,
  -- GPU time, nanoseconds, inclusive. See `launch_time`.
  time_ns
) AS
WITH summed AS (
  SELECT
    node_id, parent_node_id, depth, level, name,
    sum(launch_count) AS launch_count, sum(samples) AS samples,
    sum(CASE WHEN depth = path_depth THEN samples ELSE 0.0 END) AS own_samples,
    sum(memory_samples) AS memory_samples, sum(time_ns) AS time_ns
  FROM path_step
  GROUP BY node_id, parent_node_id, depth, level, name
)
SELECT
  node_id, parent_node_id, depth, level, name, launch_count, samples, own_samples,
  samples / nullif(max(samples) OVER (), 0.0), memory_samples, time_ns
FROM summed
