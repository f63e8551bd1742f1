-- Stalls of one kernel, launched at one line by one op, caused by bank conflicts of shared memory: bank_conflict.
--
-- By `bank_conflict`: an instruction whose requests take at least twice the minimum of wavefronts. Saving: the share of
-- wavefronts beyond the fewest, of the samples that wait for the instruction (the stall time is assumed to grow with
-- wavefronts). No instruction waits for the result of a write: conflicts of writes cost time too, and show here only by
-- the loads behind them.
--
-- Time saved: a multiprocessor serves one wavefront per cycle. Wavefronts beyond the fewest take `conflict_ns`, up to the
-- time that global memory leaves. From half of that, if it is a tenth of the launch or more, else from three tenths of the
-- stalls, to the larger of both and a tenth more, for warps that cannot issue. Source: the pairs of the book.
CREATE VIEW finding_bank_conflict (
  finding,
  subject,
  sentence,
  fact,
  advice,
  -- The kernel.
  kernel,
  -- The innermost user line around the launches. In backward, the line whose gradient this is, with (grad).
  line,
  -- The innermost op around the launches.
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
WITH conflicting AS (
  SELECT
    b.kernel_id, b.function_id, b.pc, CAST(sum(b.wavefronts) AS DOUBLE) AS wavefronts, CAST(sum(b.passes) AS DOUBLE) AS passes,
    sum(b.request_count) AS requests,
    max(CAST(a.request_count AS DOUBLE) / nullif(a.held_request_count, 0)) AS scale
  FROM bank_conflict b
  LEFT JOIN launch_access a ON a.kernel_id = b.kernel_id
  GROUP BY b.kernel_id, b.function_id, b.pc
  HAVING sum(b.wavefronts) >= 2 * sum(b.passes)
), waited AS (
  SELECT kernel_id, kernel_function_id, function_id, pc, sum(samples) AS samples, sum(time_ns) AS time_ns
  FROM access_cost
  WHERE memory_space = 'shared'
  GROUP BY kernel_id, kernel_function_id, function_id, pc
), served AS (
  -- A multiprocessor serves one wavefront per cycle. What remains is no shorter than the traffic of global memory.
  SELECT
    w.*, c.wavefronts, c.passes, c.requests, t.time_ns AS launch_ns,
    least(
      coalesce(c.scale, 1.0) * (c.wavefronts - c.passes)
        / (v.l1_lines_per_ns * least(v.multiprocessor_count, l.grid_x * l.grid_y * l.grid_z)),
      t.time_ns * (1.0 - coalesce(m.busy_share, 0.0))
    ) AS conflict_ns
  FROM waited w
  JOIN launch l ON l.kernel_id = w.kernel_id
  JOIN conflicting c ON c.kernel_id = coalesce(l.accesses_of, w.kernel_id) AND c.function_id = w.function_id AND c.pc = w.pc
  LEFT JOIN memory_rate v ON v.run_id = l.run_id AND v.device_id = l.device_id
  LEFT JOIN launch_time t ON t.kernel_id = w.kernel_id
  LEFT JOIN launch_limit m ON m.kernel_id = w.kernel_id
), summed AS (
  SELECT
    w.kernel_function_id, l.op, line_label(l.line, l.forward_line) AS line,
    sum(w.samples) AS samples, sum(w.samples * (1 - w.passes / w.wavefronts)) AS saving_samples,
    sum(w.time_ns) AS time_ns, sum(w.wavefronts) / sum(w.requests) AS wavefronts, sum(w.passes) / sum(w.requests) AS passes,
    sum(w.time_ns * (1 - w.passes / w.wavefronts)) AS stall_ns, sum(w.conflict_ns) AS conflict_ns,
    sum(CASE WHEN w.conflict_ns >= 0.1 * w.launch_ns THEN 0.5 * w.conflict_ns ELSE 0.0 END) AS certain_ns
  FROM served w
  JOIN launch_context l ON l.kernel_id = w.kernel_id
  GROUP BY w.kernel_function_id, l.op, line_label(l.line, l.forward_line)
)
SELECT
  'bank_conflict', 'shared memory in ' || n.short_kernel,
  n.short_kernel || coalesce(', launched at ' || s.line || ',', '') || ' waits for shared memory because of bank conflicts: '
    || CAST(CAST(s.wavefronts AS DECIMAL(9, 1)) AS VARCHAR) || ' wavefronts per request, where '
    || CAST(CAST(s.passes AS DECIMAL(9, 1)) AS VARCHAR) || ' suffice.',
  n.short_kernel || ': ' || CAST(CAST(s.wavefronts AS DECIMAL(9, 1)) AS VARCHAR) || ' wavefronts per request, '
    || CAST(CAST(s.passes AS DECIMAL(9, 1)) AS VARCHAR) || ' needed',
  'Let the lanes of a warp access different banks: pad the rows of the tile by one element, or swizzle its columns.',
  n.kernel, s.line, s.op, CAST(NULL AS BIGINT UNSIGNED) AS tensor_id, s.samples, s.saving_samples, s.time_ns,
  greatest(0.3 * s.stall_ns, coalesce(s.certain_ns, 0.0)) AS saving_low_ns,
  1.1 * greatest(s.stall_ns, coalesce(s.conflict_ns, 0.0)) AS saving_high_ns,
  CAST(NULL AS DOUBLE) AS fix_ns, CAST(NULL AS DOUBLE) AS pays_from,
  'SELECT b.kernel_id, b.function_id, b.pc, b.kind, b.access_bytes, b.request_count, b.wavefronts, b.passes, b.degree '
    || 'FROM bank_conflict b JOIN launch l ON l.kernel_id = b.kernel_id WHERE l.function_id = '
    || CAST(s.kernel_function_id AS VARCHAR) || ' AND b.degree >= 2 ORDER BY b.conflicts DESC'
FROM summed s
LEFT JOIN kernel_name n ON n.function_id = s.kernel_function_id
