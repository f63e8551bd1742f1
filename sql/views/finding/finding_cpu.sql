-- One device that waits for the host (cpu_bound): a fifth or more of its time passes without work because the next launch
-- call comes late, by `gpu_gap`. Gaps before the first launch of a kernel do not count, neither as time: the driver loads
-- its code, and libraries prepare. In imports they count: a profiler's window begins in a warm program. A program without a timeline run has no row: under the recorder's instruments, nothing
-- shows whether the GPU waits.
--
-- No GPU sample shows an idle GPU, so samples are 0 here. Time measures the cost.
CREATE VIEW finding_cpu (
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
  -- The kernel: null, as there are several.
  kernel,
  -- The line at whose launches the device waited longest.
  line,
  -- The op at whose launches the device waited longest. Null outside ops.
  op,
  -- No tensor: null.
  tensor_id,
  -- 0.
  samples,
  -- 0.
  saving_samples,
  -- Time without work because of late launch calls, nanoseconds.
  time_ns,
  -- SQL that shows its evidence.
  query
) AS
WITH imported AS (
  SELECT DISTINCT run_id FROM run_option WHERE name = 'imported.tool'
), gap AS (
  SELECT
    g.*, f.kernel_id IS NOT NULL AND i.run_id IS NULL AS is_first
  FROM gpu_gap g
  LEFT JOIN (SELECT min(kernel_id) AS kernel_id FROM launch GROUP BY run_id, function_id) f
    ON f.kernel_id = g.next_kernel_id
  LEFT JOIN imported i ON i.run_id = g.run_id
), late AS (
  SELECT
    run_id, device_id,
    sum(CASE WHEN is_first THEN 0 ELSE duration_ns END) AS late_ns,
    sum(CASE WHEN is_first THEN duration_ns ELSE 0 END) AS first_ns,
    sum(CASE WHEN is_first THEN 0 ELSE 1 END) AS gaps,
    max(CASE WHEN is_first THEN 0 ELSE duration_ns END) AS longest_ns
  FROM gap
  WHERE cause = 'late launch'
  GROUP BY run_id, device_id
), placed AS (
  SELECT
    g.run_id, g.device_id, coalesce(l.forward_line || ' (grad)', l.line) AS line, l.op, sum(g.duration_ns) AS ns
  FROM gap g
  JOIN launch_context l ON l.kernel_id = g.next_kernel_id
  WHERE g.cause = 'late launch' AND NOT g.is_first
  GROUP BY g.run_id, g.device_id, coalesce(l.forward_line || ' (grad)', l.line), l.op
), by_line AS (
  SELECT run_id, device_id, line, first_value(op ORDER BY ns DESC, op) AS op, sum(ns) AS ns
  FROM placed
  GROUP BY run_id, device_id, line
), worst AS (
  SELECT
    run_id, device_id,
    first_value(line ORDER BY ns DESC, line) AS line, first_value(op ORDER BY ns DESC, line) AS op, max(ns) AS ns
  FROM by_line
  GROUP BY run_id, device_id
), waiting AS (
  SELECT
    d.run_id, d.device_id, t.late_ns, t.gaps, t.longest_ns, t.first_ns, w.line, w.op, w.ns AS worst_ns,
    CAST(CAST(round(100.0 * t.late_ns / (d.span_ns - t.first_ns)) AS BIGINT) AS VARCHAR) || ' % of '
      || CASE WHEN d.span_ns - t.first_ns < 1e9
        THEN CAST(CAST((d.span_ns - t.first_ns) / 1e6 AS DECIMAL(15, 2)) AS VARCHAR) || ' ms'
        ELSE CAST(CAST((d.span_ns - t.first_ns) / 1e9 AS DECIMAL(15, 2)) AS VARCHAR) || ' s' END AS part
  FROM device_time d
  JOIN late t ON t.run_id = d.run_id AND t.device_id = d.device_id
  LEFT JOIN worst w ON w.run_id = d.run_id AND w.device_id = d.device_id
  WHERE t.late_ns >= 0.2 * (d.span_ns - t.first_ns)
)
SELECT
  'cpu_bound',
  'device ' || CAST(device_id AS VARCHAR),
  'GPU ' || CAST(device_id AS VARCHAR) || ' waits for the host in ' || part || ': in ' || CAST(gaps AS VARCHAR)
    || ' gaps the next launch call began after the GPU had become idle. The longest lasts '
    || CAST(CAST(longest_ns / 1e6 AS DECIMAL(15, 3)) AS VARCHAR) || ' ms'
    || coalesce('. ' || CASE WHEN worst_ns > 0.5 * late_ns THEN 'Most' ELSE 'The largest part' END || ' of it, ' || CAST(CAST(worst_ns / 1e6 AS DECIMAL(15, 3)) AS VARCHAR) || ' ms, passes before launches at '
    || line, '') || '.',
  'GPU idle for ' || part || ' because launch calls come late' || coalesce(CASE WHEN worst_ns > 0.5 * late_ns THEN ', most of it before ' ELSE ', the largest part before ' END || line, ''),
  'Launch less or earlier: CUDA graphs, torch.compile, larger batches, fewer synchronizations and host copies.',
  CAST(NULL AS VARCHAR) AS kernel, line, op, CAST(NULL AS BIGINT UNSIGNED) AS tensor_id,
  0.0 AS samples, 0.0 AS saving_samples, CAST(late_ns AS DOUBLE) AS time_ns,
  'SELECT * FROM gpu_gap WHERE cause = ''late launch'' AND device_id = ' || CAST(device_id AS VARCHAR)
    || CASE WHEN first_ns > 0
      THEN ' AND next_kernel_id NOT IN (SELECT min(kernel_id) FROM launch GROUP BY run_id, function_id)' ELSE '' END
    || ' ORDER BY duration_ns DESC'
FROM waiting
