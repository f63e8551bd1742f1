-- One stall reason in the kernels that one line of the user's Python code launched. In backward, with the line whose
-- gradient they compute.
CREATE VIEW python_line_stall (
  -- The innermost user line around the launches. Null without a Python stack.
  line,
  -- In backward, the line whose gradient this is.
  forward_line,
  -- The reason.
  stall_reason,
  -- True for a memory stall.
  is_memory,
  -- Samples, as in the view `sample`.
  samples,
  -- Samples among these in cycles in which the scheduler issued nothing. Never added to `samples`.
  samples_not_issued,
  -- Part of all samples.
  share
) AS
WITH by_launch AS (
  SELECT
    kernel_id, stall_reason, sum(samples) AS samples, sum(samples_not_issued) AS samples_not_issued
  FROM sample
  GROUP BY kernel_id, stall_reason
), summed AS (
  SELECT
    l.line, l.forward_line, s.stall_reason,
    sum(s.samples) AS samples, sum(s.samples_not_issued) AS samples_not_issued
  FROM by_launch s
  LEFT JOIN launch_context l ON l.kernel_id = s.kernel_id
  GROUP BY l.line, l.forward_line, s.stall_reason
)
SELECT
  s.line, s.forward_line, s.stall_reason, r.is_memory, s.samples, s.samples_not_issued,
  s.samples / nullif(sum(s.samples) OVER (), 0.0)
FROM summed s
JOIN stall_reason r ON r.reason = s.stall_reason
