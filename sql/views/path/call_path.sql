-- One call path that led to launches, with their cost.
--
-- Its steps are those of `launch_path`. All rows add up to the samples.
CREATE VIEW call_path (
  -- Hash of categories and names: stable across captures.
  path_id,
  -- The category of each step.
  levels,
  -- Its name: file:line function, a name of the module's path, an op, a kernel.
  names,
  -- Steps.
  depth,
  launch_count,
  samples,
  memory_samples,
  time_ns
) AS
SELECT
  path_id, levels, names, CAST(cardinality(names) AS BIGINT),
  count(*), sum(samples), sum(memory_samples), sum(time_ns)
FROM launch_path
GROUP BY path_id, levels, names
