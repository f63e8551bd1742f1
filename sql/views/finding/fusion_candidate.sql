-- One line of the user's code, in one phase of the step: its launches, and whether they are many short kernels
-- (DeepContext's kernel fusion analysis).
--
-- Thresholds: a candidate launches four or more kernels in each step, or in all without steps, their mean time is below 10 microseconds, about the
-- cost of a launch, and together they take a twentieth or more of the time of all launches. Launches without a Python line have nothing in common, so they are not candidates.
CREATE VIEW fusion_candidate (
  -- The innermost user line around the launches. Null without a Python stack.
  line,
  -- In backward, the line whose gradient this is.
  forward_line,
  -- The phase of the training step. Null outside ops.
  phase,
  -- Launches whose cost was measured.
  launch_count,
  -- Launches in steps, per step of the program with some. Without steps, all launches.
  step_launch_count,
  -- Different kernels.
  kernel_count,
  -- Different ops.
  op_count,
  samples,
  memory_samples,
  -- Samples that wait for code or constants: no_instructions and imc_miss.
  fetch_samples,
  time_ns,
  -- Mean per launch.
  mean_ns,
  -- Part of the time of all launches.
  time_share,
  -- Steps with launches, of all processes. 0 in set-up, and in a program that repeats nothing.
  step_count,
  -- True with a line, `step_launch_count` of 4 or more, `mean_ns` below 10,000 and `time_share` of 0.05 or more.
  is_candidate,
  -- Time of its launches in steps, nanoseconds. In a program that repeats nothing, of all.
  steady_ns
) AS
WITH fetch AS (
  SELECT kernel_id, sum(samples) AS samples
  FROM launch_sample
  WHERE stall_reason IN ('no_instructions', 'imc_miss')
  GROUP BY kernel_id
), summed AS (
  SELECT
    l.line, l.forward_line, l.phase,
    count(DISTINCT l.kernel_id) AS launch_count,
    count(DISTINCT CAST(l.run_id AS VARCHAR) || ' ' || CAST(p.program_step AS VARCHAR)) AS step_count,
    count(DISTINCT CASE WHEN p.program_step IS NOT NULL THEN l.kernel_id END) AS step_launches,
    count(DISTINCT l.function_id) AS kernel_count,
    count(DISTINCT l.op) AS op_count,
    sum(c.samples) AS samples, sum(c.memory_samples) AS memory_samples,
    coalesce(sum(f.samples), 0.0) AS fetch_samples, sum(c.time_ns) AS time_ns,
    sum(CASE WHEN p.program_phase IN ('steady', 'once') THEN c.time_ns END) AS steady_ns
  FROM launch_context l
  JOIN sample_cost c ON c.kernel_id = l.kernel_id
  JOIN launch_phase p ON p.kernel_id = l.kernel_id
  LEFT JOIN fetch f ON f.kernel_id = l.kernel_id
  GROUP BY l.line, l.forward_line, l.phase
)
SELECT
  line, forward_line, phase, launch_count, step_launch_count, kernel_count, op_count, samples, memory_samples,
  fetch_samples, time_ns,
  time_ns / launch_count, time_ns / all_ns, step_count,
  coalesce(line IS NOT NULL AND step_launch_count >= 4 AND time_ns / launch_count < 10000
    AND time_ns / all_ns >= 0.05, false),
  steady_ns
FROM (
  SELECT
    *, nullif(sum(time_ns) OVER (), 0.0) AS all_ns,
    CASE WHEN step_count > 0 THEN CAST(step_launches AS DOUBLE) / step_count ELSE CAST(launch_count AS DOUBLE) END AS step_launch_count
  FROM summed
)
