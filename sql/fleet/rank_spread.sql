-- One rank of the captures of one commit, model and job of a fleet, compared with the mean of the ranks.
CREATE VIEW rank_spread (
  -- The label `commit`.
  commit,
  -- The label `model`.
  model,
  -- The label `job`.
  job,
  -- The rank.
  rank,
  -- Captures with launches of it.
  capture_count,
  launch_count,
  -- Launches that were not recorded.
  lost_launch_count,
  -- Samples.
  samples,
  -- Part of them that are memory stalls.
  memory_share,
  -- GPU time, nanoseconds.
  time_ns,
  -- GPU time divided by the mean of the ranks.
  ratio
) AS
WITH summed AS (
  SELECT
    commit, label(labels, 'model') AS model, label(labels, 'job') AS job, rank, count(DISTINCT capture) AS captures,
    sum(launch_count) AS launches, sum(lost_launch_count) AS lost, sum(samples) AS samples,
    sum(memory_samples) AS memory_samples, sum(time_ns) AS time_ns
  FROM rank_cost
  WHERE rank IS NOT NULL
  GROUP BY commit, label(labels, 'model'), label(labels, 'job'), rank
)
SELECT
  commit, model, job, rank, captures, launches, lost, samples, memory_samples / nullif(samples, 0.0), time_ns,
  time_ns / nullif(avg(time_ns) OVER (PARTITION BY commit, model, job), 0.0)
FROM summed
