-- Stalls of one kernel, launched at one line by one op, for data that it has loaded before: redundant_load, of one
-- tensor (grouped by name, or op, line, shape) or of one allocation outside tensors.
--
-- By `redundant_load`: the narrowest of thread, warp and block that has already loaded half or more of the data that an
-- instruction loads, with no store to it since. Loads repeated by other blocks are not a fault: no nearer memory could
-- hold their data. Saving: the redundant part of the samples that wait for the instruction, less if its loads already
-- hit L1.
--
-- Time saved: three tenths of the time of the saved samples to 1.1 times that.
CREATE VIEW finding_redundant_load (
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
  -- The tensor. In a group, the costliest.
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
WITH charged AS (
  -- Without the other launches, the analysis of loads reads half of the accesses.
  SELECT *
  FROM access_cost
  WHERE memory_kind = 'read' AND object_id IS NOT NULL AND (memory_space IS DISTINCT FROM 'shared')
), again AS (
  SELECT
    kernel_id, function_id, pc,
    first_value(scope ORDER BY place) AS scope, first_value(redundant_share ORDER BY place) AS redundant_share
  FROM (
    SELECT r.*, CASE scope WHEN 'thread' THEN 1 WHEN 'warp' THEN 2 ELSE 3 END AS place
    FROM (SELECT DISTINCT coalesce(n.accesses_of, a.kernel_id) AS kernel_id FROM charged a JOIN launch n ON n.kernel_id = a.kernel_id) c
    JOIN redundant_load r ON r.kernel_id = c.kernel_id
    WHERE scope <> 'grid' AND redundant_share >= 0.5
  )
  GROUP BY kernel_id, function_id, pc
), summed AS (
  SELECT
    a.kernel_function_id, g.scope, l.op, line_label(l.line, l.forward_line) AS line, c.name, c.family_type AS type,
    max(c.label) AS label,
    first_value(a.object_id ORDER BY a.samples DESC, a.object_id) AS object_id,
    first_value(a.tensor_id ORDER BY a.samples DESC, a.object_id) AS tensor_id,
    sum(a.samples) AS samples, sum(a.samples * g.redundant_share) AS saving_samples,
    sum(a.time_ns) AS time_ns
  FROM charged a
  JOIN launch n ON n.kernel_id = a.kernel_id
  JOIN again g ON g.kernel_id = coalesce(n.accesses_of, a.kernel_id) AND g.function_id = a.function_id AND g.pc = a.pc
  JOIN launch_context l ON l.kernel_id = a.kernel_id
  LEFT JOIN target_context c ON c.target = a.target AND c.object_id = a.object_id
  GROUP BY a.kernel_function_id, g.scope, l.op, line_label(l.line, l.forward_line), c.name, c.family_type
)
SELECT
  'redundant_load', coalesce(s.label, 'global memory') || ' in ' || n.short_kernel,
  n.short_kernel || coalesce(', launched at ' || s.line || ',', '') || ' waits for '
    || coalesce('`' || s.label || '`' || coalesce(' (' || s.type || ')', ''), 'global memory') || ', of which the same '
    || s.scope || ' has loaded ' || CAST(CAST(round(100 * s.saving_samples / s.samples) AS BIGINT) AS VARCHAR)
    || ' % before.',
  n.short_kernel || ': each ' || s.scope || ' loads '
    || CAST(CAST(round(100 * s.saving_samples / s.samples) AS BIGINT) AS VARCHAR) || ' % of '
    || coalesce(s.label, 'global memory') || ' again',
  CASE s.scope
    WHEN 'thread' THEN 'Hold it in a register: load it before the loop, and declare it read-only '
      || '(const, __restrict__).'
    WHEN 'warp' THEN 'Let one lane load it and share it (__shfl_sync), or hold it in shared memory.'
    ELSE 'Load it into shared memory once for the block.'
  END,
  n.kernel, s.line, s.op, s.tensor_id, s.samples, s.saving_samples, s.time_ns,
  0.3 * s.time_ns * s.saving_samples / s.samples AS saving_low_ns, 1.1 * s.time_ns * s.saving_samples / s.samples AS saving_high_ns,
  CAST(NULL AS DOUBLE) AS fix_ns, CAST(NULL AS DOUBLE) AS pays_from,
  'SELECT r.* FROM redundant_load r JOIN launch l ON l.kernel_id = r.kernel_id WHERE l.function_id = '
    || CAST(s.kernel_function_id AS VARCHAR) || ' AND r.scope = ''' || s.scope
    || ''' AND r.redundant_share >= 0.5 ORDER BY r.redundant_loads DESC'
FROM summed s
LEFT JOIN kernel_name n ON n.function_id = s.kernel_function_id
-- Loads that nothing waits for cost nothing.
WHERE s.samples > 0.0
