-- Stalls of one kernel, launched at one line by one op, caused by bank conflicts of shared memory: bank_conflict.
--
-- By `bank_conflict`: an instruction whose requests take at least twice the minimum of wavefronts. Saving: the share of
-- wavefronts beyond the fewest, of the samples that wait for the instruction (the stall time is assumed to grow with
-- wavefronts). No instruction waits for the result of a write: conflicts of writes cost time too, and show here only by
-- the loads behind them.
CREATE VIEW finding_bank_conflict (
  -- The kind of inefficiency.
  finding,
  -- Its subject.
  subject,
  -- Sentence with the inefficiency and its location.
  sentence,
  -- The measured fact in few words.
  fact,
  -- Recommended change.
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
  -- Upper bound of samples that a fix saves.
  saving_samples,
  -- GPU time that `samples` represent, nanoseconds. See `launch_time`.
  time_ns,
  -- SQL that shows its evidence.
  query
) AS
WITH conflicting AS (
  SELECT
    kernel_id, function_id, pc, CAST(sum(wavefronts) AS DOUBLE) AS wavefronts, CAST(sum(passes) AS DOUBLE) AS passes,
    sum(request_count) AS requests
  FROM bank_conflict
  GROUP BY kernel_id, function_id, pc
  HAVING sum(wavefronts) >= 2 * sum(passes)
), waited AS (
  SELECT kernel_id, kernel_function_id, function_id, pc, sum(samples) AS samples, sum(time_ns) AS time_ns
  FROM access_cost
  WHERE memory_space = 'shared'
  GROUP BY kernel_id, kernel_function_id, function_id, pc
), summed AS (
  SELECT
    w.kernel_function_id, l.op, coalesce(l.forward_line || ' (grad)', l.line) AS line,
    sum(w.samples) AS samples, sum(w.samples * (1 - c.passes / c.wavefronts)) AS saving_samples,
    sum(w.time_ns) AS time_ns, sum(c.wavefronts) / sum(c.requests) AS wavefronts, sum(c.passes) / sum(c.requests) AS passes
  FROM waited w
  JOIN conflicting c ON c.kernel_id = w.kernel_id AND c.function_id = w.function_id AND c.pc = w.pc
  JOIN launch_context l ON l.kernel_id = w.kernel_id
  GROUP BY w.kernel_function_id, l.op, coalesce(l.forward_line || ' (grad)', l.line)
)
SELECT
  'bank_conflict', 'shared memory in ' || n.short_kernel,
  n.short_kernel || coalesce(', launched at ' || s.line, '') || ', waits for shared memory because of bank conflicts: '
    || CAST(CAST(s.wavefronts AS DECIMAL(9, 1)) AS VARCHAR) || ' wavefronts per request, where '
    || CAST(CAST(s.passes AS DECIMAL(9, 1)) AS VARCHAR) || ' suffice.',
  n.short_kernel || ': ' || CAST(CAST(s.wavefronts AS DECIMAL(9, 1)) AS VARCHAR) || ' wavefronts per request, '
    || CAST(CAST(s.passes AS DECIMAL(9, 1)) AS VARCHAR) || ' needed',
  'Let the lanes of a warp access different banks: pad the rows of the tile by one element, or swizzle its columns.',
  n.kernel, s.line, s.op, CAST(NULL AS BIGINT UNSIGNED) AS tensor_id, s.samples, s.saving_samples, s.time_ns,
  'SELECT b.kernel_id, b.function_id, b.pc, b.kind, b.access_bytes, b.request_count, b.wavefronts, b.passes, b.degree '
    || 'FROM bank_conflict b JOIN launch l ON l.kernel_id = b.kernel_id WHERE l.function_id = '
    || CAST(s.kernel_function_id AS VARCHAR) || ' AND b.degree >= 2 ORDER BY b.conflicts DESC'
FROM summed s
LEFT JOIN kernel_name n ON n.function_id = s.kernel_function_id
