-- One line that launches many short kernels (small_kernels), by `fusion_candidate`.
--
-- One kernel in place of n reads and writes memory once, and fetches code once. Saving: the stalls of the other kernels for
-- memory, code and constants, (n - 1) / n of all, with n launches in each step. The CPU cost of the
-- launches is not included: see `cpu_latency`.
--
-- Time saved: three tenths of the other kernels' time, (n - 1) / n, to all of it and of the GPU's idle time before their late
-- launches.
CREATE VIEW finding_fusion (
  finding,
  subject,
  sentence,
  fact,
  advice,
  -- The kernel: null, as there are several.
  kernel,
  -- The line. In backward, the line whose gradient this is, with (grad).
  line,
  -- No op: null, as there are several.
  op,
  -- No tensor: null.
  tensor_id,
  -- Samples of the launches.
  samples,
  saving_samples,
  -- GPU time that `samples` represent, nanoseconds. See `launch_time`.
  time_ns,
  saving_low_ns,
  saving_high_ns,
  fix_ns,
  pays_from,
  query
) AS
WITH late AS (
  SELECT l.line, l.forward_line, l.phase, CAST(sum(s.duration_ns) AS DOUBLE) AS late_ns
  FROM gpu_gap g
  JOIN segment_phase s ON s.run_id = g.run_id AND s.device_id = g.device_id AND s.stretch_ns = g.begin_ns
  JOIN launch_context l ON l.kernel_id = g.next_kernel_id
  WHERE g.cause = 'late launch' AND NOT g.is_after_wait AND s.program_phase IN ('steady', 'once')
  GROUP BY l.line, l.forward_line, l.phase
), candidate AS (
  SELECT f.*, coalesce(g.late_ns, 0.0) AS late_ns
  FROM fusion_candidate f
  LEFT JOIN late g
    ON (g.line IS NOT DISTINCT FROM f.line) AND (g.forward_line IS NOT DISTINCT FROM f.forward_line)
    AND (g.phase IS NOT DISTINCT FROM f.phase)
  WHERE f.is_candidate
)
SELECT
  'small_kernels',
  coalesce(line_label(line, forward_line), 'launches without a Python line'),
  CAST(CAST(round(step_launch_count) AS BIGINT) AS VARCHAR) || ' kernels ' || CASE WHEN step_count = 0 THEN ''
    ELSE 'per step ' END || 'are launched ' || coalesce('for the gradient of ' || forward_line, 'at ' || line,
    'without a Python line') || ', and each runs for ' || CAST(CAST(mean_ns / 1000 AS DECIMAL(9, 2)) AS VARCHAR)
    || ' microseconds on average.',
  CAST(CAST(round(step_launch_count) AS BIGINT) AS VARCHAR) || ' kernels' || CASE WHEN step_count = 0 THEN ''
    ELSE ' per step' END || ' of ' || CAST(CAST(mean_ns / 1000 AS DECIMAL(9, 2)) AS VARCHAR) || ' µs on average',
  'Fuse them: torch.compile, a fused or foreach version of the op, or one custom kernel.',
  CAST(NULL AS VARCHAR) AS kernel, line_label(line, forward_line) AS subject_line, CAST(NULL AS VARCHAR) AS op,
  CAST(NULL AS BIGINT UNSIGNED) AS tensor_id,
  samples, (memory_samples + fetch_samples) * (1 - 1 / step_launch_count), time_ns,
  0.3 * steady_ns * (1 - 1 / step_launch_count) AS saving_low_ns, (steady_ns + late_ns) * (1 - 1 / step_launch_count) AS saving_high_ns,
  CAST(NULL AS DOUBLE) AS fix_ns, CAST(NULL AS DOUBLE) AS pays_from,
  'SELECT kernel_id, kernel, op, samples, memory_samples, time_ns FROM launch_context JOIN sample_cost USING '
    || '(kernel_id) WHERE coalesce(line, '''') = ''' || replace(coalesce(line, ''), '''', '''''')
    || ''' AND coalesce(forward_line, '''') = ''' || replace(coalesce(forward_line, ''), '''', '''''')
    || ''' AND phase ' || coalesce('= ''' || CAST(phase AS VARCHAR) || '''', 'IS NULL')
    || ' ORDER BY time_ns DESC NULLS LAST, kernel_id'
FROM candidate
