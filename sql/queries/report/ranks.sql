-- Ranks
-- One row per rank of a distributed program, and the data missing from the capture. Shown for several ranks.
-- last: collectives at which the rank came last. delay: time by which it did, and its most frequent cause: own kernels, late
-- launch calls, input. wait: time that it waited for other ranks.
WITH skew AS (
  SELECT
    r.reference_run_id AS run_id, sum(s.last_count) AS last_count, sum(s.delay_ns) AS delay_ns, max(s.cause) AS cause,
    sum(s.wait_ns) AS wait_ns
  FROM rank_skew s
  JOIN run r ON r.run_id = s.run_id
  GROUP BY r.reference_run_id
)
SELECT
  c.rank, c.host, c.devices,
  c.share,
  c.memory_share,
  c.samples,
  c.time_ns,
  c.launch_count AS launches,
  s.last_count AS last,
  s.delay_ns AS delay_ns,
  s.cause,
  s.wait_ns AS wait_ns,
  c.lost_launch_count AS lost_launches,
  c.lost_sample_share,
  c.lost_request_share
FROM rank_cost c
LEFT JOIN skew s ON s.run_id = c.run_id
WHERE (SELECT count(DISTINCT rank) FROM run) > 1 AND c.rank IS NOT NULL
ORDER BY c.rank, c.run_id
