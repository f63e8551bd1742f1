-- One rank of a capture with several ranks, compared with their mean. Captures of one rank are those of one commit, model,
-- job and GPU, and their ranks compare if each has as many captures.
CREATE VIEW rank_spread (
  -- The capture. Null for captures of one rank.
  capture,
  -- The label `commit`.
  commit,
  -- The label `model`.
  model,
  -- The label `job`.
  job,
  -- Names of its devices.
  gpu,
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
  -- GPU time divided by the mean of the ranks. Null without another rank, or where one has more captures.
  ratio
) AS
WITH own AS (
  SELECT *, min(rank) OVER held <> max(rank) OVER held AS is_job
  FROM rank_cost
  WHERE rank IS NOT NULL
  WINDOW held AS (PARTITION BY capture)
), summed AS (
  SELECT
    CASE WHEN is_job THEN capture END AS capture, commit, label(labels, 'model') AS model, label(labels, 'job') AS job,
    gpu, rank, count(DISTINCT capture) AS captures, sum(launch_count) AS launches, sum(lost_launch_count) AS lost,
    sum(samples) AS samples, sum(memory_samples) AS memory_samples, sum(time_ns) AS time_ns
  FROM own
  GROUP BY CASE WHEN is_job THEN capture END, commit, label(labels, 'model'), label(labels, 'job'), gpu, rank
)
SELECT
  capture, commit, model, job, gpu, rank, captures, launches, lost, samples, memory_samples / nullif(samples, 0.0), time_ns,
  CASE WHEN count(*) OVER peers > 1 AND min(captures) OVER peers = max(captures) OVER peers
    THEN time_ns / nullif(avg(time_ns) OVER peers, 0.0) END
FROM summed
WINDOW peers AS (PARTITION BY capture, commit, model, job, gpu)
