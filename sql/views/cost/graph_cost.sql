-- One CUDA graph over all its launches: the cost of its kernels.
CREATE VIEW graph_cost (
  -- The run that defines its launches.
  run_id,
  -- The graph, numbered in its process.
  graph_id,
  -- The rank of its process. Null outside distributed programs.
  rank,
  -- Launches of the graph.
  launch_count,
  -- Kernel nodes that were recorded.
  node_count,
  -- Launches of its kernels.
  kernel_launch_count,
  -- Launches of its kernels that are not in the capture.
  missing_kernel_launch_count,
  -- Part of its kernel launches that were captured inside an op.
  op_share,
  -- Samples of its kernels, as in the view `sample`.
  samples,
  memory_samples,
  -- Part of the samples of all launches.
  share,
  -- Part of `samples` that several nodes share. Their division among these nodes is an estimate.
  split_share,
  time_ns,
  -- The op that launched it first. Null outside ops.
  op,
  -- The line that launched it first.
  line
) AS
WITH split AS (
  SELECT DISTINCT run_id, kernel_id FROM launch_run WHERE samples_are_split
), whole AS (
  SELECT sum(samples) AS samples FROM sample_cost
), cost AS (
  SELECT
    c.kernel_id, sum(c.samples) AS samples, sum(c.memory_samples) AS memory_samples,
    sum(CASE WHEN s.kernel_id IS NULL THEN 0.0 ELSE c.samples END) AS split_samples, sum(c.time_ns) AS time_ns
  FROM sample_cost c
  LEFT JOIN split s ON s.run_id = c.run_id AND s.kernel_id = c.kernel_id
  GROUP BY c.kernel_id
), kernel AS (
  SELECT
    l.run_id, l.graph_id, count(*) AS launches, count(DISTINCT l.graph_launch) AS graph_launches,
    count(DISTINCT l.graph_node) AS nodes, count(l.op_id) AS with_op, sum(c.samples) AS samples,
    sum(c.memory_samples) AS memory_samples, sum(c.split_samples) AS split_samples, sum(c.time_ns) AS time_ns
  FROM launch l
  LEFT JOIN cost c ON c.kernel_id = l.kernel_id
  WHERE l.graph_id IS NOT NULL
  GROUP BY l.run_id, l.graph_id
), called AS (
  SELECT
    run_id, graph_id, count(*) AS launches, sum(kernel_count) AS kernels,
    first_value(op_id ORDER BY graph_launch) AS op_id,
    first_value(pystates_hash ORDER BY graph_launch) AS pystates_hash
  FROM graph_launch
  GROUP BY run_id, graph_id
), graph AS (
  -- A sampling run saw the same launches.
  SELECT run_id, graph_id FROM kernel
  UNION
  SELECT c.run_id, c.graph_id
  FROM called c
  JOIN run r ON r.run_id = c.run_id AND r.reference_run_id = r.run_id
)
SELECT
  g.run_id, g.graph_id, r.rank, coalesce(c.launches, k.graph_launches, 0), coalesce(k.nodes, 0),
  coalesce(k.launches, 0), greatest(CAST(c.kernels AS BIGINT) - coalesce(k.launches, 0), 0),
  CAST(k.with_op AS DOUBLE) / nullif(CAST(k.launches AS DOUBLE), 0.0), coalesce(k.samples, 0.0),
  coalesce(k.memory_samples, 0.0), k.samples / nullif(w.samples, 0.0), k.split_samples / nullif(k.samples, 0.0),
  k.time_ns, o.op, p.line
FROM graph g
LEFT JOIN kernel k ON k.run_id = g.run_id AND k.graph_id = g.graph_id
LEFT JOIN called c ON c.run_id = g.run_id AND c.graph_id = g.graph_id
LEFT JOIN run r ON r.run_id = g.run_id
LEFT JOIN op_context o ON o.op_id = c.op_id
LEFT JOIN python_line p ON p.pystates_hash = c.pystates_hash
CROSS JOIN whole w
