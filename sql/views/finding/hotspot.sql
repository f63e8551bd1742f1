-- One node of the call tree, and whether it is hot (DeepContext's hotspot analysis, HPCToolkit's hot path).
--
-- Thresholds: a hotspot has a tenth or more of all samples. The hot path continues to a child that has half or more of
-- its parent's samples.
CREATE VIEW hotspot (
  -- The node, as in `path_top_down`.
  node_id,
  -- The node above.
  parent_node_id,
  -- Distance from the root `whole`.
  depth,
  -- The category, as in `call_path`.
  level,
  -- The name.
  name,
  -- Samples, inclusive.
  samples,
  share,
  -- Part of the samples of the node above.
  parent_share,
  -- True if `share` is 0.1 or more.
  is_hotspot,
  -- True if `parent_share` is 0.5 or more.
  is_main_child,
  -- GPU time, nanoseconds, inclusive. See `launch_time`.
  time_ns
) AS
WITH node AS (
  SELECT
    node_id, parent_node_id, depth, level, name, samples, share, own_samples, time_ns,
    sum(samples) OVER (PARTITION BY parent_node_id) AS siblings
  FROM path_top_down
)
SELECT
  node_id, parent_node_id, depth, level, name, samples, share,
  -- Only kernels have exclusive samples, and no children.
  samples / nullif(siblings, 0.0),
  coalesce(share >= 0.1, false),
  coalesce(samples / nullif(siblings, 0.0) >= 0.5, false),
  time_ns
FROM node
WHERE depth > 0
