-- One path of ranges: the launches whose innermost range it is.
--
-- The samples of all rows add up to those of the view `sample`: launches outside of ranges are a row, too.
CREATE VIEW range_cost (
  -- Names of the ranges, outermost first, with slashes between them. Null for launches outside of ranges.
  path,
  -- Name of the innermost range.
  range_name,
  -- Executions of the range with launches of its own.
  range_count,
  -- Launches, as in `program_launch`, including those without samples.
  launch_count,
  samples,
  -- Part of all samples. In a capture without samples, part of the time of all launches.
  share,
  memory_samples,
  -- Their part of the samples here.
  memory_share,
  time_ns
) AS
WITH summed AS (
  SELECT
    r.path, r.range_name,
    count(DISTINCT r.op_id) AS range_count,
    count(DISTINCT p.kernel_id) AS launch_count,
    coalesce(sum(s.samples), 0.0) AS samples,
    coalesce(sum(s.memory_samples), 0.0) AS memory_samples,
    sum(s.time_ns) AS time_ns
  FROM launch_range r
  LEFT JOIN program_launch p ON p.kernel_id = r.kernel_id
  LEFT JOIN sample_cost s ON s.kernel_id = r.kernel_id
  GROUP BY r.path, r.range_name
)
SELECT
  path, range_name, range_count, launch_count, samples,
  CASE WHEN sum(samples) OVER () > 0.0 THEN samples / sum(samples) OVER () ELSE time_ns / nullif(sum(time_ns) OVER (), 0.0) END,
  memory_samples,
  memory_samples / nullif(samples, 0.0),
  time_ns
FROM summed
