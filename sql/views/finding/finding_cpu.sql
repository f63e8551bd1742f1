-- One device that waits for the host (cpu_bound): a fifth or more of its time in steps passes without work because the
-- host asks late for the next launch or copy, by `gpu_gap`. Set-up does not count, and neither does the end. In a program
-- that repeats nothing, all of its time counts. Gaps before the first launch of a kernel do not count, neither as time: the
-- driver loads its code, and libraries prepare. In imports they count: a profiler's window begins in a warm program. A
-- program without a timeline run, or without a kernel's time, has no row: under the recorder's instruments, nothing shows whether the GPU waits.
--
-- Advice is for the largest part of these gaps: after waits of the host for the device, before copies to the device or
-- behind a data loader, or before launches. Code of the host that fills half of them is named, by `gap_host`. No GPU sample shows an idle GPU, so samples are 0 here. Time measures the cost.
--
-- Time saved: up to all of these gaps, if no other device of the process is busy meanwhile. At least, for late launches half of them, less 12 microseconds per launch call, by which the
-- recorder makes calls longer. For late input, half of the gaps or of the device's busy time, whichever is less: one loader works while the device does. For waits,
-- half of the time that is neither the device's busy time nor needed for the host's launch calls.
CREATE VIEW finding_cpu (
  finding,
  subject,
  sentence,
  fact,
  advice,
  -- The kernel: null, as there are several.
  kernel,
  -- The line at whose launches or copies the device waited longest. Null where it is not known.
  line,
  -- The op at whose launches the device waited longest. Null outside ops.
  op,
  -- No tensor: null.
  tensor_id,
  -- 0.
  samples,
  -- 0.
  saving_samples,
  -- Time without work because of late calls, nanoseconds.
  time_ns,
  saving_low_ns,
  saving_high_ns,
  fix_ns,
  pays_from,
  query
) AS
WITH imported AS (
  SELECT DISTINCT run_id FROM run_option WHERE name = 'imported.tool'
), first AS (
  SELECT min(kernel_id) AS kernel_id FROM launch GROUP BY run_id, function_id
), gap AS (
  SELECT
    g.* EXCEPT (duration_ns), s.duration_ns, f.kernel_id IS NOT NULL AND i.run_id IS NULL AS is_first, h.name AS host, h.is_loader,
    CASE WHEN h.is_loader THEN 'input' WHEN g.is_after_wait THEN 'wait' WHEN coalesce(g.next_copy_kind, '') = 'host_to_device' THEN 'input'
      ELSE 'launch' END AS reason
  FROM gpu_gap g
  JOIN (
    SELECT run_id, device_id, stretch_ns, sum(duration_ns) AS duration_ns FROM segment_phase
    WHERE program_phase IN ('steady', 'once') GROUP BY run_id, device_id, stretch_ns
  ) s ON s.run_id = g.run_id AND s.device_id = g.device_id AND s.stretch_ns = g.begin_ns
  LEFT JOIN gap_host h ON h.run_id = g.run_id AND h.device_id = g.device_id AND h.begin_ns = g.begin_ns
  LEFT JOIN first f ON f.kernel_id = g.next_kernel_id
  LEFT JOIN imported i ON i.run_id = g.run_id
  WHERE g.cause IN ('late launch', 'late copy')
), period AS (
  SELECT w.run_id, w.device_id, count(w.program_step) AS steps, sum(w.end_ns - w.begin_ns) AS span_ns FROM phase_window w
  JOIN (SELECT DISTINCT run_id, device_id FROM gpu_activity WHERE kind = 'kernel') k ON k.run_id = w.run_id AND k.device_id = w.device_id
  WHERE w.program_phase IN ('steady', 'once') GROUP BY w.run_id, w.device_id
), late AS (
  SELECT
    run_id, device_id, sum(CASE WHEN is_first THEN duration_ns ELSE 0 END) AS first_ns,
    sum(CASE WHEN NOT is_first THEN duration_ns ELSE 0 END) AS late_ns, sum(CASE WHEN is_first THEN 0 ELSE 1 END) AS gaps,
    max(CASE WHEN is_first THEN 0 ELSE duration_ns END) AS longest_ns
  FROM gap
  GROUP BY run_id, device_id
), by_reason AS (
  SELECT run_id, device_id, reason, sum(duration_ns) AS ns FROM gap WHERE NOT is_first GROUP BY run_id, device_id, reason
), reason AS (
  SELECT run_id, device_id, first_value(reason ORDER BY ns DESC, reason) AS reason, max(ns) AS ns FROM by_reason GROUP BY run_id, device_id
), by_host AS (
  SELECT run_id, device_id, host, is_loader, sum(duration_ns) AS ns FROM gap
  WHERE NOT is_first AND host IS NOT NULL GROUP BY run_id, device_id, host, is_loader
), inside AS (
  SELECT
    run_id, device_id, max(ns) AS ns, first_value(host ORDER BY ns DESC, host) AS host,
    first_value(is_loader ORDER BY ns DESC, host) AS is_loader
  FROM by_host GROUP BY run_id, device_id
), busy AS (
  SELECT run_id, device_id, sum(CASE WHEN kernel_count + copy_count > 0 THEN duration_ns ELSE 0 END) AS busy_ns FROM segment_phase
  WHERE program_phase IN ('steady', 'once') GROUP BY run_id, device_id
), most_busy AS (
  SELECT run_id, max(busy_ns) AS busy_ns FROM busy GROUP BY run_id
), called AS (
  SELECT h.run_id, sum(h.host_ns) AS host_ns, count(*) AS calls
  FROM host_time h
  JOIN launch_phase p ON p.kernel_id = h.kernel_id
  WHERE p.program_phase IN ('steady', 'once')
  GROUP BY h.run_id
), placed AS (
  SELECT
    g.run_id, g.device_id, CASE WHEN g.next_kind = 'kernel' THEN line_label(l.line, l.forward_line) ELSE g.next_line END AS line, l.op,
    coalesce(CASE WHEN l.written_line IS NOT NULL THEN line_label(l.line, l.forward_line) END, n.short_kernel,
      CASE WHEN g.next_kind <> 'kernel' THEN g.next_line END, CASE g.next_kind WHEN 'kernel' THEN NULL WHEN 'fill' THEN 'fills of memory' ELSE 'copies ' || replace(coalesce(g.next_copy_kind, 'of memory'), '_', ' ') END) AS place,
    sum(g.duration_ns) AS ns
  FROM gap g
  LEFT JOIN launch_context l ON l.kernel_id = g.next_kernel_id
  LEFT JOIN kernel_name n ON n.function_id = l.function_id
  WHERE NOT g.is_first
  GROUP BY 1, 2, 3, 4, 5
), by_place AS (
  SELECT run_id, device_id, place, max(line) AS line, first_value(op ORDER BY ns DESC, op) AS op, sum(ns) AS ns
  FROM placed GROUP BY run_id, device_id, place
), worst AS (
  SELECT
    run_id, device_id, first_value(place ORDER BY ns DESC, place) AS place, first_value(line ORDER BY ns DESC, place) AS line,
    first_value(op ORDER BY ns DESC, place) AS op, max(ns) AS ns
  FROM by_place WHERE place IS NOT NULL GROUP BY run_id, device_id
), waiting AS (
  SELECT
    d.run_id, d.device_id, d.steps, greatest(least(t.late_ns, d.span_ns - m.busy_ns), 0) AS saving_high_ns, t.late_ns, t.gaps, t.longest_ns, t.first_ns,
    CASE WHEN i.ns >= 0.5 * t.late_ns THEN i.host END AS host, CASE WHEN i.ns >= 0.5 * t.late_ns THEN i.ns ELSE r.ns END AS because_ns,
    i.is_loader, r.reason, w.place, w.line, w.op, w.ns AS worst_ns,
    CASE r.reason WHEN 'wait' THEN 0.5 * least(t.late_ns, greatest(d.span_ns - greatest(b.busy_ns, coalesce(c.host_ns, 0)), 0))
      WHEN 'input' THEN 0.5 * least(t.late_ns, b.busy_ns)
      ELSE 0.5 * greatest(t.late_ns - 12e3 * coalesce(c.calls, 0), 0) END AS saving_low_ns,
    CAST(CAST(round(100.0 * t.late_ns / (d.span_ns - t.first_ns)) AS BIGINT) AS VARCHAR) || ' % of '
      || CASE WHEN d.steps > 1 THEN CAST(d.steps AS VARCHAR) || ' ' || h.noun || 's, together ' WHEN d.steps = 1 THEN 'a ' || h.noun || ' of ' ELSE '' END
      || CASE WHEN d.span_ns - t.first_ns < 1e9
        THEN CAST(CAST((d.span_ns - t.first_ns) / 1e6 AS DECIMAL(15, 2)) AS VARCHAR) || ' ms'
        ELSE CAST(CAST((d.span_ns - t.first_ns) / 1e9 AS DECIMAL(15, 2)) AS VARCHAR) || ' s' END
      || CASE WHEN t.first_ns >= 0.01 * d.span_ns THEN ' without first launches' ELSE '' END AS part
  FROM period d
  JOIN late t ON t.run_id = d.run_id AND t.device_id = d.device_id
  JOIN reason r ON r.run_id = d.run_id AND r.device_id = d.device_id
  JOIN busy b ON b.run_id = d.run_id AND b.device_id = d.device_id
  LEFT JOIN inside i ON i.run_id = d.run_id AND i.device_id = d.device_id
  JOIN most_busy m ON m.run_id = d.run_id
  LEFT JOIN called c ON c.run_id = d.run_id
  LEFT JOIN worst w ON w.run_id = d.run_id AND w.device_id = d.device_id
  CROSS JOIN (SELECT CASE max(found_by) WHEN 'period' THEN 'iteration' ELSE 'step' END AS noun FROM launch_phase) h
  WHERE t.late_ns >= 0.2 * (d.span_ns - t.first_ns)
), worded AS (
  SELECT
    *,
    CASE WHEN worst_ns > 0.5 * late_ns THEN 'most of it' ELSE 'the largest part' END AS part_word,
    CASE WHEN because_ns >= 0.95 * late_ns THEN '' WHEN because_ns >= 0.5 * late_ns THEN 'mostly ' ELSE 'in part ' END || 'because '
      || CASE WHEN host IS NOT NULL THEN 'the host is in ' || host WHEN reason = 'wait' THEN 'the host waits for the GPU before it asks for more'
      WHEN reason = 'input' THEN 'copies to the GPU come late' ELSE 'launch calls come late' END AS because
  FROM waiting
)
SELECT
  'cpu_bound',
  'device ' || CAST(device_id AS VARCHAR),
  'GPU ' || CAST(device_id AS VARCHAR) || ' waits for the host in ' || part || ': in ' || CAST(gaps AS VARCHAR)
    || CASE gaps WHEN 1 THEN ' gap' ELSE ' gaps' END || ' the next call began after the GPU had become idle. The longest lasts '
    || CAST(CAST(longest_ns / 1e6 AS DECIMAL(15, 3)) AS VARCHAR) || ' ms'
    || coalesce('. Meanwhile the host is in ' || host, '')
    || coalesce('. ' || CASE WHEN worst_ns > 0.5 * late_ns THEN 'Most of the wait' ELSE 'The largest part of it' END || ', '
      || CAST(CAST(worst_ns / 1e6 AS DECIMAL(15, 3)) AS VARCHAR) || ' ms, passes before ' || CASE WHEN line IS NULL THEN '' ELSE 'launches at ' END || place, '') || '.',
  'GPU idle for ' || part || ', ' || because || coalesce(', ' || part_word || ' before ' || place, ''),
  CASE
    WHEN host IS NOT NULL AND NOT is_loader AND reason <> 'input'
      THEN 'Do this work less often, in another thread, or after the next launches: the GPU then works meanwhile.'
    WHEN reason = 'wait' THEN 'Wait less: no .item(), print or copy to the host in a step, or queue the next launches before.'
    WHEN reason = 'input' THEN 'Load data ahead: worker processes, pinned memory, copies that do not block, a prefetched batch.'
    ELSE 'Launch less or earlier: CUDA graphs, torch.compile, larger batches, fewer synchronizations and host copies.' END,
  CAST(NULL AS VARCHAR) AS kernel, line, op, CAST(NULL AS BIGINT UNSIGNED) AS tensor_id,
  0.0 AS samples, 0.0 AS saving_samples, CAST(late_ns AS DOUBLE) AS time_ns,
  CAST(least(saving_low_ns, saving_high_ns) AS DOUBLE) AS saving_low_ns, CAST(saving_high_ns AS DOUBLE) AS saving_high_ns, CAST(NULL AS DOUBLE) AS fix_ns, CAST(NULL AS DOUBLE) AS pays_from,
  'SELECT g.* FROM gpu_gap g JOIN (SELECT DISTINCT run_id, device_id, stretch_ns FROM segment_phase '
    || 'WHERE program_phase IN (''steady'', ''once'')) s ON s.run_id = g.run_id AND s.device_id = g.device_id AND s.stretch_ns = g.begin_ns '
    || CASE WHEN first_ns > 0 THEN 'LEFT ANTI JOIN (SELECT min(kernel_id) AS kernel_id FROM launch GROUP BY run_id, function_id) f '
      || 'ON f.kernel_id = g.next_kernel_id ' ELSE '' END
    || 'WHERE g.cause IN (''late launch'', ''late copy'') AND g.device_id = '
    || CAST(device_id AS VARCHAR)
    || ' ORDER BY g.duration_ns DESC'
FROM worded
