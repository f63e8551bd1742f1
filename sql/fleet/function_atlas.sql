-- One kernel by the content of its code, in all captures of a fleet.
CREATE VIEW function_atlas (
  -- The kernel: hash of its code and name, in each capture the same.
  function_id,
  kernel,
  -- Captures that launch it.
  capture_count,
  -- Commits among their labels.
  commit_count,
  -- Names of the devices that it ran on.
  gpus,
  -- Start of the first capture that launches it.
  first_time,
  -- Start of the last one.
  last_time,
  launch_count,
  -- Samples.
  samples,
  -- Part of them that are memory stalls.
  memory_share,
  -- GPU time, nanoseconds.
  time_ns,
  -- GPU time of a launch in the capture where it is the least, nanoseconds.
  launch_ns_low,
  -- The same in the capture where it is the greatest.
  launch_ns_high
) AS
SELECT
  function_id, min(kernel), count(DISTINCT capture), count(DISTINCT commit),
  string_agg(DISTINCT gpu, ', ' ORDER BY gpu), min(time), max(time), sum(launch_count), sum(samples),
  sum(memory_samples) / nullif(sum(samples), 0.0), sum(time_ns),
  min(time_ns / nullif(CAST(launch_count AS DOUBLE), 0.0)), max(time_ns / nullif(CAST(launch_count AS DOUBLE), 0.0))
FROM kernel_cost
GROUP BY function_id
