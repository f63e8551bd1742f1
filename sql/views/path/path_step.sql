-- One step of one call path, with its two nodes: in the top-down tree (callers first) and in the bottom-up tree
-- (callees first).
--
-- The view is the closure of callers and callees. A node's inclusive cost is the sum over the steps with its `node_id`,
-- and the cost of the callees of a name is the sum over its steps that are first. Each path is also a step of depth 0,
-- named `whole`.
CREATE VIEW path_step (
  -- The path, as in `call_path`.
  path_id,
  -- Position in the path, from 1 for the outermost caller. 0 for `whole`.
  depth,
  -- Steps of the path.
  path_depth,
  -- The category, as in `call_path`. `whole` at depth 0.
  level,
  -- The name. Null at depth 0.
  name,
  -- Hash of the path from the outermost caller to here: equal for paths with equal beginnings.
  node_id,
  -- Node of the step before. Null at depth 0.
  parent_node_id,
  -- Hash of the path from the kernel back to here: equal for paths with equal ends. Null at depth 0.
  caller_node_id,
  -- Node of the step after. Null at the kernel.
  callee_node_id,
  -- True if the path has no earlier step with this category and name. A recursive path contains a name many times, and
  -- counts once for it.
  is_first,
  -- Launches of the path. This and the next column are equal in all its steps.
  launch_count,
  -- Their samples, as in the view `sample`.
  samples,
  memory_samples,
  -- Their estimated GPU time, nanoseconds. See `cost_time`.
  time_ns
) AS
WITH placed AS (
  SELECT
    path_id, levels, names, depth AS path_depth, unnest(range(0, depth + 1)) AS depth,
    launch_count, samples, memory_samples, time_ns
  FROM call_path
), hashed AS (
  SELECT
    path_id, depth, path_depth,
    CASE WHEN depth > 0 THEN levels[depth] ELSE 'whole' END AS level,
    CASE WHEN depth > 0 THEN names[depth] END AS name,
    CASE WHEN depth > 0 THEN md5(
      array_to_string(array_slice(levels, 1, depth), ' ') || chr(31)
        || array_to_string(array_slice(names, 1, depth), chr(31))
    ) ELSE 'whole' END AS node_id,
    CASE WHEN depth > 0 THEN md5(
      array_to_string(array_slice(levels, depth, path_depth), ' ') || chr(31)
        || array_to_string(array_slice(names, depth, path_depth), chr(31))
    ) END AS caller_node_id,
    launch_count, samples, memory_samples, time_ns
  FROM placed
)
SELECT
  path_id, depth, path_depth, level, name, node_id,
  lag(node_id) OVER (PARTITION BY path_id ORDER BY depth),
  caller_node_id,
  lead(caller_node_id) OVER (PARTITION BY path_id ORDER BY depth),
  row_number() OVER (PARTITION BY path_id, level, name ORDER BY depth) = 1,
  launch_count, samples, memory_samples, time_ns
FROM hashed
