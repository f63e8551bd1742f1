-- One cost in one capture of a fleet: of all launches, a kernel, a Python line, an op, a tensor, or a role of tensors.
--
-- Rows of a kind add up to the samples of the capture. The same `series` is the same thing in each capture: a kernel's
-- code, the position of a line in its function, a name.
CREATE VIEW trend_point (
  -- The kind of thing: total, kernel, line, op, tensor, role.
  kind,
  -- Its name, for reading.
  name,
  -- Its identity in all captures: of a kernel its function_id, of a line its place, as in `line_place`.
  series,
  -- The capture.
  capture,
  -- Its label `commit`.
  commit,
  -- All its labels.
  labels,
  -- Its label `model`.
  model,
  -- Its label `branch`.
  branch,
  -- Its script, else its program. Null with a label `model`, which says more.
  program,
  -- The rank of its runs. Null for several.
  rank,
  -- Names of its devices.
  gpu,
  -- Start of its first run.
  time,
  -- Launches. Null for tensors and roles.
  launch_count,
  samples,
  memory_samples,
  time_ns
) AS
WITH point AS (
  SELECT
    'total' AS kind, 'all launches' AS name, 'total' AS series, capture, commit, labels, rank, gpu, time,
    sum(launch_count) AS launch_count, sum(samples) AS samples, sum(memory_samples) AS memory_samples,
    sum(time_ns) AS time_ns
  FROM kernel_cost
  GROUP BY capture, commit, labels, rank, gpu, time
  UNION ALL
  SELECT
    'kernel', kernel_label(kernel), hex(function_id), capture, commit, labels, rank, gpu, time,
    launch_count, samples, memory_samples, time_ns
  FROM kernel_cost
  UNION ALL
  SELECT
    'line', coalesce(c.line, '(no Python line)') || coalesce(' | ' || c.forward_line, ''),
    coalesce(p.place, c.line, '') || coalesce(' | ' || coalesce(q.place, c.forward_line), ''),
    c.capture, c.commit, c.labels, c.rank, c.gpu, c.time, c.launch_count, c.samples, c.memory_samples, c.time_ns
  FROM line_cost c
  LEFT JOIN line_place p ON p.capture = c.capture AND p.line = c.line
  LEFT JOIN line_place q ON q.capture = c.capture AND q.line = c.forward_line
  UNION ALL
  SELECT
    'op', coalesce(op, '(no op)') || coalesce(' in ' || CAST(phase AS VARCHAR), ''),
    coalesce(op, '') || ' ' || coalesce(CAST(phase AS VARCHAR), ''),
    capture, commit, labels, rank, gpu, time, launch_count, samples, memory_samples, time_ns
  FROM op_cost
  UNION ALL
  SELECT
    'role', role AS name, role AS series, capture, commit, labels, rank, gpu, time, CAST(NULL AS BIGINT), samples, memory_samples,
    time_ns
  FROM role_cost
  UNION ALL
  SELECT
    'tensor', coalesce(remainder, label) AS name, coalesce(remainder, label) AS series, capture, commit, labels, rank, gpu, time,
    CAST(NULL AS BIGINT), sum(samples), sum(memory_samples), sum(time_ns)
  FROM object_cost
  GROUP BY coalesce(remainder, label), capture, commit, labels, rank, gpu, time
), program AS (
  SELECT capture, first_value(program ORDER BY run_id) AS program
  FROM (
    SELECT
      capture, run_id,
      regexp_replace(
        coalesce(CASE WHEN program LIKE '%python%' THEN regexp_match(arguments, '"([^"]*[.]py)"')[1] END, program), '^.*/', ''
      ) AS program
    FROM run
  )
  GROUP BY capture
)
SELECT
  p.kind, p.name, p.series, p.capture, p.commit, p.labels, label(p.labels, 'model'), label(p.labels, 'branch'),
  CASE WHEN label(p.labels, 'model') IS NULL THEN g.program END, p.rank, p.gpu, p.time, p.launch_count, p.samples,
  p.memory_samples, p.time_ns
FROM point p
LEFT JOIN program g ON g.capture = p.capture
