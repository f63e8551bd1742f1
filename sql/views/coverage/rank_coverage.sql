-- Coverage of the ranks of a distributed program, as rows of `coverage`. Other programs have no rows.
--
-- A rank has a row of its own if its data is less complete than that of another rank: it has fewer launches, or its
-- loss is larger by 1 % or more.
CREATE VIEW rank_coverage (
  position,
  item,
  count,
  -- Total of the item. For launches, those of the rank with the most.
  total,
  -- True if nothing that should be there is missing.
  is_whole,
  -- Explanation.
  detail
) AS
WITH ranked AS (
  SELECT
    CAST(rank AS VARCHAR) AS rank, world_size, CAST(launch_count AS DOUBLE) AS launches,
    CAST(sample_count AS DOUBLE) AS samples, CAST(sample_count + lost_sample_count AS DOUBLE) AS taken,
    CAST(request_count AS DOUBLE) AS requests, CAST(request_count + lost_request_count AS DOUBLE) AS made
  FROM process
  WHERE rank IS NOT NULL
), compared AS (
  SELECT
    *, max(launches) OVER () AS most_launches, samples / nullif(taken, 0.0) AS sample_share,
    max(samples / nullif(taken, 0.0)) OVER () AS best_sample_share, requests / nullif(made, 0.0) AS request_share,
    max(requests / nullif(made, 0.0)) OVER () AS best_request_share
  FROM ranked
), whole AS (
  SELECT CAST(count(DISTINCT rank) AS DOUBLE) AS ranks, CAST(max(world_size) AS DOUBLE) AS world_size FROM ranked LIMIT 1
)
SELECT 12, 'ranks recorded', ranks, world_size, ranks >= world_size, CAST(NULL AS VARCHAR) FROM whole WHERE ranks > 0
UNION ALL
SELECT 13, 'launches of rank ' || rank, launches, most_launches, false, 'another rank has more'
FROM compared
WHERE launches < most_launches
UNION ALL
SELECT 14, 'samples of rank ' || rank || ' collected', samples, taken, false, 'another rank lost less'
FROM compared
WHERE sample_share <= best_sample_share - 0.01
UNION ALL
SELECT 15, 'warp requests of rank ' || rank || ' recorded', requests, made, false, 'another rank lost less'
FROM compared
WHERE request_share <= best_request_share - 0.01
