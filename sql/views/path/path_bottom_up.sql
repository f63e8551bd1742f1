-- One node of the bottom-up call tree, callees first: the cost of the launches whose paths end with it.
--
-- The nodes at depth 1 are kernels, and add up to the samples. A node's children are its callers. The rest is
-- exclusive: launches without a further caller.
CREATE VIEW path_bottom_up (
  -- The node, as `caller_node_id` in `path_step`.
  node_id,
  -- The node that it calls. Null for kernels.
  callee_node_id,
  -- Distance from the root `whole`: 1 for kernels.
  depth,
  -- The category, as in `call_path`.
  level,
  -- The name.
  name,
  launch_count,
  -- Samples.
  samples,
  -- Samples of paths that begin here: this step has no caller.
  own_samples,
  share,
  memory_samples,
  time_ns
) AS
WITH summed AS (
  SELECT
    caller_node_id, callee_node_id, path_depth - depth + 1 AS distance, level, name,
    sum(launch_count) AS launch_count, sum(samples) AS samples,
    sum(CASE WHEN depth = 1 THEN samples ELSE 0.0 END) AS own_samples,
    sum(memory_samples) AS memory_samples, sum(time_ns) AS time_ns
  FROM path_step
  WHERE depth > 0
  GROUP BY caller_node_id, callee_node_id, path_depth - depth + 1, level, name
)
SELECT
  caller_node_id, callee_node_id, distance, level, name, launch_count, samples, own_samples,
  samples / nullif(sum(CASE WHEN distance = 1 THEN samples END) OVER (), 0.0), memory_samples, time_ns
FROM summed
