-- Ranks
-- One row per rank of a distributed program, and the data missing from the capture. Shown for several ranks.
SELECT
  rank, host, devices,
  share,
  memory_share,
  samples,
  time_ns,
  launch_count AS launches,
  lost_launch_count AS lost_launches,
  lost_sample_share,
  lost_request_share
FROM rank_cost
WHERE (SELECT count(DISTINCT rank) FROM run) > 1 AND rank IS NOT NULL
ORDER BY rank, run_id
