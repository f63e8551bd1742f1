-- One kernel that stalls for reasons other than memory: barrier_wait (its warps wait for each other), instruction_fetch
-- (its code is not in the caches: no_instructions and imc_miss together).
--
-- Thresholds: 15 % of the kernel's samples for barriers, 30 % for its code. The lower end of the 95 % CI of their rate must
-- pass. Saving: those samples.
--
-- Time saved: a fifth to all of the time of those samples.
CREATE VIEW finding_stall (
  finding,
  subject,
  sentence,
  fact,
  advice,
  -- The kernel.
  kernel,
  -- The innermost user line around its launches, if there is only one. In backward, the line whose gradient this is,
  -- with (grad).
  line,
  -- The innermost op around its launches, if there is only one.
  op,
  -- No tensor: null.
  tensor_id,
  -- Samples of its cost.
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
WITH reason AS (
  SELECT s.kernel_id, r.finding, sum(s.samples) AS samples
  FROM launch_sample s
  JOIN (VALUES ('barrier', 'barrier_wait'), ('no_instructions', 'instruction_fetch'), ('imc_miss', 'instruction_fetch'))
    AS r(reason, finding) ON r.reason = s.stall_reason
  GROUP BY s.kernel_id, r.finding
), cost AS (
  SELECT c.kernel_id, sum(c.samples) AS samples, sum(c.time_ns) AS time_ns, coalesce(max(r.scale), 1.0) AS weight
  FROM sample_cost c
  LEFT JOIN cost_run r ON r.run_id = c.run_id AND r.kernel_id = c.kernel_id
  GROUP BY c.kernel_id
), kernel AS (
  SELECT
    l.function_id, f.finding,
    CASE WHEN count(DISTINCT line_label(l.line, l.forward_line)) = 1
      THEN max(line_label(l.line, l.forward_line)) END AS line,
    CASE WHEN count(DISTINCT l.op) = 1 THEN max(l.op) END AS op,
    sum(coalesce(r.samples, 0.0)) AS samples,
    sum(coalesce(r.samples, 0.0) * c.time_ns / nullif(c.samples, 0.0)) AS time_ns,
    sum(coalesce(r.samples, 0.0)) / nullif(sum(c.samples), 0.0) AS share,
    poisson_low(sum(coalesce(r.samples, 0.0)) / max(c.weight)) * max(c.weight) / nullif(sum(c.samples), 0.0) AS low_share
  FROM launch_context l
  JOIN cost c ON c.kernel_id = l.kernel_id
  CROSS JOIN (VALUES ('barrier_wait'), ('instruction_fetch')) AS f(finding)
  LEFT JOIN reason r ON r.kernel_id = l.kernel_id AND r.finding = f.finding
  GROUP BY l.function_id, f.finding
)
SELECT
  k.finding, n.short_kernel,
  n.short_kernel || coalesce(', launched at ' || k.line || ',', '') || CASE k.finding
    WHEN 'barrier_wait' THEN ' has warps that wait for other warps of their block at a barrier: '
    ELSE ' waits for its own code and constants, which are not in the caches when it starts: ' END
    || CAST(CAST(round(k.share * 100) AS BIGINT) AS VARCHAR) || ' % of its samples.',
  n.short_kernel || ': ' || CAST(CAST(round(k.share * 100) AS BIGINT) AS VARCHAR) || ' % of its samples '
    || CASE k.finding WHEN 'barrier_wait' THEN 'wait at a barrier' ELSE 'wait for code and constants' END,
  CASE k.finding
    WHEN 'barrier_wait' THEN 'Give the warps of a block equal work, use smaller blocks, or synchronize warps and not blocks.'
    ELSE 'Let fewer and longer kernels run: fuse it with its neighbours, or give one launch more work. Less unrolling '
      || 'makes code smaller.'
  END,
  n.kernel, k.line, k.op, CAST(NULL AS BIGINT UNSIGNED) AS tensor_id, k.samples, k.samples AS saving_samples, k.time_ns,
  0.2 * k.time_ns AS saving_low_ns, k.time_ns AS saving_high_ns, CAST(NULL AS DOUBLE) AS fix_ns, CAST(NULL AS DOUBLE) AS pays_from,
  'SELECT stall_reason, samples, samples_not_issued, share FROM kernel_stall WHERE function_id = '
    || CAST(k.function_id AS VARCHAR) || ' ORDER BY samples DESC'
FROM kernel k
LEFT JOIN kernel_name n ON n.function_id = k.function_id
WHERE k.low_share >= CASE k.finding WHEN 'barrier_wait' THEN 0.15 ELSE 0.3 END
