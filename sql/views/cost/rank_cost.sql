-- One process of the program, such as a rank of a distributed one: its work, its cost, and the missing data.
CREATE VIEW rank_cost (
  -- The rank. Null outside distributed programs.
  rank,
  -- The run that defines its launches.
  run_id,
  -- The host's name.
  host,
  -- The GPUs that its launches used, as CUDA's device ordinals.
  devices,
  launch_count,
  -- Launches with samples.
  sampled_launch_count,
  samples,
  memory_samples,
  -- Their part of `samples`.
  memory_share,
  -- Part of the samples of all ranks.
  share,
  time_ns,
  -- Launches that were not recorded.
  lost_launch_count,
  -- Share of the samples of its launches that the capture lacks.
  lost_sample_share,
  -- Share of its warp requests that the capture lacks.
  lost_request_share
) AS
WITH cost AS (
  SELECT
    l.run_id, count(DISTINCT s.kernel_id) AS launches, sum(s.samples) AS samples,
    sum(s.memory_samples) AS memory_samples, sum(s.time_ns) AS time_ns
  FROM sample_cost s
  JOIN launch l ON l.kernel_id = s.kernel_id
  GROUP BY l.run_id
)
SELECT
  p.rank, p.run_id, p.host, p.devices, p.launch_count, coalesce(c.launches, 0), coalesce(c.samples, 0.0),
  coalesce(c.memory_samples, 0.0), c.memory_samples / nullif(c.samples, 0.0),
  coalesce(c.samples, 0.0) / nullif(sum(c.samples) OVER (), 0.0), c.time_ns, p.lost_launch_count,
  CAST(p.lost_sample_count AS DOUBLE) / nullif(CAST(p.sample_count + p.lost_sample_count AS DOUBLE), 0.0),
  CAST(p.lost_request_count AS DOUBLE) / nullif(CAST(p.request_count + p.lost_request_count AS DOUBLE), 0.0)
FROM process p
LEFT JOIN cost c ON c.run_id = p.run_id
