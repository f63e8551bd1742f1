-- One line of the user's Python code over all its launches. In backward, one line whose gradient ran.
CREATE VIEW line_cost (
  -- The innermost user line around the launches. Null without a Python stack.
  line,
  -- In backward, the line whose gradient this is.
  forward_line,
  -- Launches, as in `program_launch`, including those without samples.
  launch_count,
  samples,
  -- Part of all samples. In a capture without samples, part of the time of all launches.
  share,
  memory_samples,
  -- Their part of the samples here.
  memory_share,
  time_ns,
  -- Place of `forward_line`, else of `line`, as in `line_place`. Join captures by it: edits elsewhere in a file move lines.
  line_place
) AS
WITH summed AS (
  SELECT
    l.line, l.forward_line,
    count(DISTINCT p.kernel_id) AS launch_count,
    coalesce(sum(s.samples), 0.0) AS samples,
    coalesce(sum(s.memory_samples), 0.0) AS memory_samples,
    sum(s.time_ns) AS time_ns
  FROM launch_context l
  LEFT JOIN program_launch p ON p.kernel_id = l.kernel_id
  LEFT JOIN sample_cost s ON s.kernel_id = l.kernel_id
  GROUP BY l.line, l.forward_line
)
SELECT
  s.line, forward_line,
  launch_count,
  samples,
  CASE WHEN sum(samples) OVER () > 0.0 THEN samples / sum(samples) OVER () ELSE time_ns / nullif(sum(time_ns) OVER (), 0.0) END,
  memory_samples,
  memory_samples / nullif(samples, 0.0),
  time_ns,
  p.place
FROM summed s
LEFT JOIN line_place p ON p.line = coalesce(s.forward_line, s.line)
