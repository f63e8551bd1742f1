-- One kernel over all its launches.
CREATE VIEW kernel_cost (
  -- The kernel.
  function_id,
  kernel,
  -- Launches, as in `program_launch`, including those without samples.
  launch_count,
  samples,
  -- Part of all samples. In a capture without samples, part of the time of all launches.
  share,
  memory_samples,
  -- Their part of the samples here.
  memory_share,
  time_ns,
  -- Its short name, by `kernel_label`. `kernel_name` has one that is unique.
  label
) AS
WITH summed AS (
  SELECT
    l.function_id, l.kernel,
    count(DISTINCT p.kernel_id) AS launch_count,
    coalesce(sum(s.samples), 0.0) AS samples,
    coalesce(sum(s.memory_samples), 0.0) AS memory_samples,
    sum(s.time_ns) AS time_ns
  FROM launch_context l
  LEFT JOIN program_launch p ON p.kernel_id = l.kernel_id
  LEFT JOIN sample_cost s ON s.kernel_id = l.kernel_id
  GROUP BY l.function_id, l.kernel
)
SELECT
  function_id, kernel,
  launch_count,
  samples,
  CASE WHEN sum(samples) OVER () > 0.0 THEN samples / sum(samples) OVER () ELSE time_ns / nullif(sum(time_ns) OVER (), 0.0) END,
  memory_samples,
  memory_samples / nullif(samples, 0.0),
  time_ns,
  kernel_label(kernel)
FROM summed
