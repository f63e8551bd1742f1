-- Coverage of kernels that CUDA graphs launched, as rows of `coverage`. Programs without graphs have no rows.
CREATE VIEW graph_coverage (
  position,
  item,
  count,
  -- Total of the item. Null if it has none.
  total,
  -- True if nothing that should be there is missing. Null if a part is expected.
  is_whole,
  -- Explanation.
  detail
) AS
WITH called AS (
  -- A sampling run saw the same launches.
  SELECT count(*) AS launches, coalesce(sum(g.kernel_count), 0) AS kernels
  FROM graph_launch g
  JOIN run r ON r.run_id = g.run_id
  WHERE r.reference_run_id = r.run_id
  LIMIT 1
), node AS (
  SELECT
    count(*) AS kernels, count(op_id) AS with_op,
    sum(CASE WHEN r.reference_run_id = r.run_id THEN 1 ELSE 0 END) AS defined
  FROM launch l
  JOIN run r ON r.run_id = l.run_id
  WHERE l.graph_id IS NOT NULL
  LIMIT 1
), sampled AS (
  SELECT count(*) AS kernels, sum(CASE WHEN s.samples_are_split THEN 1 ELSE 0 END) AS split
  FROM cost_run c
  JOIN launch l ON l.kernel_id = c.kernel_id
  JOIN launch_run s ON s.run_id = c.run_id AND s.kernel_id = c.kernel_id
  WHERE l.graph_id IS NOT NULL AND NOT c.is_replay
  LIMIT 1
)
SELECT
  24, 'launches of CUDA graphs', CAST(launches AS DOUBLE), CAST(NULL AS DOUBLE) AS total,
  CAST(NULL AS BOOLEAN) AS is_whole, CAST(NULL AS VARCHAR) AS detail
FROM called
WHERE launches > 0
UNION ALL
SELECT 25, 'kernels of CUDA graphs recorded as launches', CAST(n.defined AS DOUBLE), CAST(c.kernels AS DOUBLE),
  n.defined >= c.kernels, 'the rest have no row'
FROM called c
CROSS JOIN node n
WHERE c.kernels > 0
UNION ALL
SELECT 26, 'kernels of CUDA graphs captured inside an op', CAST(with_op AS DOUBLE), CAST(kernels AS DOUBLE), NULL, NULL
FROM node
WHERE kernels > 0
UNION ALL
SELECT 27, 'kernels of CUDA graphs with an estimated share of samples', CAST(split AS DOUBLE), CAST(kernels AS DOUBLE),
  NULL, NULL
FROM sampled
WHERE kernels > 0
