-- One step of one call path, with the two nodes that it is: of the tree from the outermost call inwards, and of the
-- tree from the kernel outwards.
--
-- It is the closure of callers and callees: a node's inclusive cost is the sum over the steps with its `node_id`, and
-- what is called from a name costs the sum over its steps that are first. Each path is also a step of depth 0, the
-- whole.
CREATE VIEW path_step (
  -- The path, as in `call_path`.
  path_id,
  -- Position in the path, from 1 for the outermost; 0 for the whole.
  depth,
  -- Steps of the path.
  path_depth,
  -- The level, as in `call_path`; whole at depth 0.
  level,
  -- The name; null at depth 0.
  name,
  -- The path from the outermost call to here, hashed: equal where paths begin alike.
  node_id,
  -- That of the step before; null at depth 0.
  parent_node_id,
  -- The path from the kernel back to here, hashed: equal where paths end alike; null at depth 0.
  caller_node_id,
  -- That of the step after; null at the kernel.
  callee_node_id,
  -- Whether the path has no earlier step of this level and name: in recursion a path has a name many times, and counts
  -- once for it.
  is_first,
  -- Launches of the path; this and the next are equal in all its steps.
  launch_count,
  -- Their samples, as in the view `sample`.
  samples,
  -- Those of memory stalls.
  memory_samples,
  -- Their estimated time of the GPU, nanoseconds; see `cost_time`.
  estimated_ns
) AS
WITH placed AS (
  SELECT
    path_id, levels, names, depth AS path_depth, unnest(range(0, depth + 1)) AS depth,
    launch_count, samples, memory_samples, estimated_ns
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
    launch_count, samples, memory_samples, estimated_ns
  FROM placed
)
SELECT
  path_id, depth, path_depth, level, name, node_id,
  lag(node_id) OVER (PARTITION BY path_id ORDER BY depth),
  caller_node_id,
  lead(caller_node_id) OVER (PARTITION BY path_id ORDER BY depth),
  row_number() OVER (PARTITION BY path_id, level, name ORDER BY depth) = 1,
  launch_count, samples, memory_samples, estimated_ns
FROM hashed
