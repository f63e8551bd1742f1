-- One inefficiency: its subject, location, cost, fix and evidence.
--
-- Each kind has a view of its own, with its rule, its thresholds and the formulas of the saving. `samples` are part of
-- all samples, and `saving_samples` is the upper bound that a complete fix saves. Samples of too_few_blocks
-- stand for parts of the time, because no sample shows idle multiprocessors. Two findings can share samples, so
-- savings do not add up. Rank by `finding_rank`. Where experiments left out all accesses of the subject
-- (`ablation_cost`), the upper bound is no more than they measured.
--
-- `saving_low_ns` and `saving_high_ns` are times per step, of launches in steps alone: up to the time of the kernel at the
-- line, of several kernels up to the step's. Where a tenth or more of the steps passes
-- before late launches or input, a shorter kernel can leave the GPU idle for longer: the least saving is 0. The book's page on
-- savings compares the intervals with programs that took the advice.
--
-- A finding whose cost is measured by samples needs evidence: the lower end of the 95 % CI of their rate is a thousandth
-- or more of all samples.
CREATE VIEW finding (
  finding,
  -- Its subject: a tensor in a kernel, a kernel, a line, an op.
  subject,
  -- Sentence with the inefficiency, its location and its cost.
  sentence,
  fact,
  advice,
  -- The kernel. Null for several.
  kernel,
  -- The innermost user line around its launches. In backward, the line whose gradient this is, with (grad). Null for
  -- several, or if none is known.
  line,
  -- The op. Null for several, or if none is known.
  op,
  -- The tensor. Null if the subject is not a tensor.
  tensor_id,
  -- Samples of its cost. 0 if samples do not measure it.
  samples,
  -- Their part of all samples. Null if samples do not measure it, as below.
  share,
  saving_samples,
  -- Their part of all samples.
  saving_share,
  -- Least time per step that a fix saves, nanoseconds, less its own cost. Below 0 if it can cost more than it saves. Of a
  -- program that repeats nothing, per run. Null if unknown.
  saving_low_ns,
  -- Most time per step that a fix saves.
  saving_high_ns,
  fix_ns,
  pays_from,
  -- Cause. Findings with the same one are about the same accesses, or the same op at one line.
  cause,
  -- Rank among the findings of its cause. `stallmap` shows the first, and names the rest.
  cause_rank,
  -- Kinds of the other findings of its cause. Null without any.
  also,
  -- Rank in lists: wrong accesses, then the first finding of each cause, then the rest. In steps before set-up, a GPU that
  -- waits for its host or only copies before kernels, then by the middle of the saving. Advice that can cost more than it saves is last.
  finding_rank,
  -- Part of its launches' time that all accesses of the subject cost, by experiments: the larger one of warm and flushed
  -- caches. Null if none was made.
  measured_share,
  -- GPU time that `samples` represent, nanoseconds. See `launch_time`.
  time_ns,
  -- True if its line, else its kernel, is launched in steps, and in a program that repeats nothing. True for several. A
  -- slow first launch is part of set-up.
  is_in_steps,
  -- The view that found it.
  found_by,
  query
) AS
WITH found AS (
  SELECT *, 'finding_access' AS found_by FROM finding_access
  UNION ALL SELECT *, 'finding_backward' FROM finding_backward
  UNION ALL SELECT *, 'finding_bank_conflict' FROM finding_bank_conflict
  UNION ALL SELECT *, 'finding_block' FROM finding_block
  UNION ALL SELECT *, 'finding_code' FROM finding_code
  UNION ALL SELECT *, 'finding_copy' FROM finding_copy
  UNION ALL SELECT *, 'finding_cpu' FROM finding_cpu
  UNION ALL SELECT *, 'finding_first_launch' FROM finding_first_launch
  UNION ALL SELECT *, 'finding_fusion' FROM finding_fusion
  UNION ALL SELECT *, 'finding_memory' FROM finding_memory
  UNION ALL SELECT *, 'finding_occupancy' FROM finding_occupancy
  UNION ALL SELECT *, 'finding_redundant_load' FROM finding_redundant_load
  UNION ALL SELECT *, 'finding_stall' FROM finding_stall
  UNION ALL SELECT *, 'finding_traffic' FROM finding_traffic
  UNION ALL SELECT *, 'finding_transfer' FROM finding_transfer
  UNION ALL SELECT *, 'finding_wrong_access' FROM finding_wrong_access
), launched AS (
  SELECT
    line_label(l.line, l.forward_line) AS line, l.kernel, CASE WHEN p.program_phase IN ('steady', 'once') THEN 1 ELSE 0 END AS is_steady,
    t.time_ns AS all_ns, CASE WHEN p.program_phase IN ('steady', 'once') THEN t.time_ns END AS time_ns
  FROM launch_context l
  JOIN launch_phase p ON p.kernel_id = l.kernel_id
  LEFT JOIN launch_time t ON t.kernel_id = l.kernel_id
), steady_line AS (
  -- Savings are of all launches. Those of a tuner take time, too.
  SELECT line, max(is_steady) AS is_steady, coalesce(sum(time_ns) / nullif(sum(all_ns), 0.0), avg(is_steady)) AS part FROM launched WHERE line IS NOT NULL GROUP BY line
), steady_kernel AS (
  SELECT kernel, max(is_steady) AS is_steady, coalesce(sum(time_ns) / nullif(sum(all_ns), 0.0), avg(is_steady)) AS part, sum(time_ns) AS time_ns FROM launched WHERE kernel IS NOT NULL GROUP BY kernel
), site AS (
  SELECT kernel, line, sum(time_ns) AS time_ns FROM launched WHERE kernel IS NOT NULL AND line IS NOT NULL GROUP BY kernel, line
), span AS (
  SELECT CAST(max(ns) AS DOUBLE) AS ns FROM (SELECT sum(end_ns - begin_ns) AS ns FROM phase_window WHERE program_phase IN ('steady', 'once') GROUP BY run_id, device_id)
), stepped AS (
  -- All steps of all processes, and those of one.
  SELECT greatest(sum(steps), 1) AS steps, greatest(max(steps), 1) AS own_steps, max(CASE WHEN steps > 0 THEN 1 ELSE 0 END) AS has_steps
  FROM (SELECT run_id, count(DISTINCT program_step) AS steps FROM launch_phase GROUP BY run_id)
), host AS (
  -- If launches come late, the GPU may only be idle for longer once a kernel is shorter.
  SELECT coalesce(sum(launch_idle_ns + input_idle_ns) >= 0.1 * sum(duration_ns), false) AS is_late FROM program_step
), bounded AS (
  SELECT f.* EXCEPT (saving_samples), m.measured_share, f.saving_samples * least(coalesce(m.saved_per_sample, 1.0), 1.0) AS saving_samples,
    CASE WHEN f.found_by IN ('finding_access', 'finding_traffic', 'finding_redundant_load', 'finding_copy', 'finding_backward')
      THEN coalesce(f.op || ' at ' || f.line, f.subject) END AS place
  FROM found f
  LEFT JOIN ablation_saving m ON m.subject = f.subject
), caused AS (
  SELECT
    f.*,
    CASE
      WHEN f.finding IN ('small_kernels', 'instruction_fetch') AND f.line IS NOT NULL THEN 'launches at ' || f.line
      WHEN f.place IS NULL THEN f.finding || ' of ' || f.subject
      -- Busy memory at one line gives way to a fault of its accesses. Else each object that keeps it busy counts.
      WHEN f.finding <> 'busy_memory' OR bool_or(f.finding <> 'busy_memory') OVER (PARTITION BY f.place) THEN f.place
      ELSE f.place || ' of ' || f.subject
    END AS cause,
    coalesce(l.part, k.part, a.part) / t.steps AS step_part,
    -- A finding of several kernels names the costliest.
    CASE WHEN f.kernel IS NOT NULL
      THEN greatest(coalesce(i.time_ns, k.time_ns), f.time_ns * coalesce(l.part, k.part, a.part)) / t.steps
      ELSE greatest(coalesce(a.time_ns / t.steps, 0.0), coalesce(s.ns / t.own_steps, 0.0)) END AS whole_ns,
    coalesce(l.is_steady, k.is_steady, 1) = 1 AND NOT (f.finding = 'slow_first_launch' AND t.has_steps = 1) AS is_in_steps
  FROM bounded f
  LEFT JOIN steady_line l ON l.line = f.line
  LEFT JOIN steady_kernel k ON k.kernel = f.kernel
  CROSS JOIN stepped t
  LEFT JOIN site i ON i.kernel = f.kernel AND i.line = f.line
  CROSS JOIN span s
  CROSS JOIN (SELECT coalesce(sum(time_ns) / nullif(sum(all_ns), 0.0), avg(is_steady)) AS part, sum(time_ns) AS time_ns FROM launched) a
), scaled AS (
  SELECT
    f.* EXCEPT (saving_low_ns, saving_high_ns),
    f.saving_low_ns * CASE WHEN NOT f.is_in_steps THEN NULL WHEN f.finding IN ('cpu_bound', 'exposed_copy') THEN 1.0 / t.own_steps
      WHEN h.is_late AND f.saving_low_ns > 0.0 AND f.finding <> 'small_kernels' THEN 0.0
      WHEN f.finding IN ('small_kernels', 'too_few_blocks') THEN 1.0 / t.steps ELSE f.step_part END AS saving_low_ns,
    f.saving_high_ns * CASE WHEN NOT f.is_in_steps THEN NULL WHEN f.finding IN ('cpu_bound', 'exposed_copy') THEN 1.0 / t.own_steps
      WHEN f.finding IN ('small_kernels', 'too_few_blocks') THEN 1.0 / t.steps ELSE f.step_part END AS saving_high_ns,
    CASE WHEN f.samples > 0.0 THEN f.samples / a.samples END AS share,
    CASE WHEN f.samples > 0.0 THEN f.saving_samples / a.samples END AS saving_share, t.has_steps,
    f.samples = 0.0 OR poisson_low(f.samples / w.weight) * w.weight >= 0.001 * a.samples AS is_evident
  FROM caused f
  CROSS JOIN host h
  CROSS JOIN stepped t
  CROSS JOIN (SELECT sum(samples) AS samples FROM launch_sample LIMIT 1) a
  CROSS JOIN (SELECT coalesce(max(scale), 1.0) AS weight FROM cost_run LIMIT 1) w
), shared AS (
  SELECT * EXCEPT (saving_low_ns, saving_high_ns, whole_ns),
    CASE WHEN saving_low_ns > whole_ns THEN whole_ns ELSE saving_low_ns END AS saving_low_ns,
    CASE WHEN saving_high_ns > whole_ns THEN whole_ns ELSE saving_high_ns END AS saving_high_ns
  FROM scaled
), ranked AS (
  SELECT
    *,
    row_number() OVER (
      PARTITION BY cause
      -- Busy memory and a costly gradient are general: other findings name what to change.
      ORDER BY is_in_steps DESC, finding IN ('busy_memory', 'costly_backward'), coalesce(saving_low_ns < 0.0, false),
        saving_low_ns + saving_high_ns DESC NULLS LAST, saving_samples DESC, finding, subject
    ) AS cause_rank,
    array_agg(finding) OVER (PARTITION BY cause) AS kinds
  FROM shared
  WHERE is_evident
)
SELECT
  finding, subject,
  sentence || CASE WHEN samples > 0.0 THEN CASE finding WHEN 'too_few_blocks' THEN ' Such launches cost ' ELSE ' It costs ' END
    || CASE WHEN share < 0.001 THEN 'less than 0.1' ELSE CAST(CAST(100 * share AS DECIMAL(9, 1)) AS VARCHAR) END
    || CASE WHEN finding = 'too_few_blocks' AND time_ns IS NOT NULL THEN ' % of the time of all launches'
      ELSE ' % of all samples' END || '.' ELSE '' END
    || CASE WHEN saving_high_ns IS NOT NULL THEN ' A fix saves '
      || CASE WHEN saving_low_ns BETWEEN 0.0 AND 50.0 THEN 'up to ' ELSE CAST(CAST(saving_low_ns / 1e3 AS DECIMAL(12, 1)) AS VARCHAR) || ' to ' END
      || CAST(CAST(saving_high_ns / 1e3 AS DECIMAL(12, 1)) AS VARCHAR) || CASE has_steps WHEN 1 THEN ' µs per step.' ELSE ' µs.' END
    WHEN saving_share IS NOT NULL THEN ' A fix saves up to '
      || CASE WHEN saving_share < 0.001 THEN 'less than 0.1' ELSE CAST(CAST(100 * saving_share AS DECIMAL(9, 1)) AS VARCHAR) END
      || ' %.' ELSE '' END || coalesce(' Measured: without these accesses its launches take '
    || CAST(CAST(100 * measured_share AS DECIMAL(9, 1)) AS VARCHAR) || ' % less time.', '')
    || CASE WHEN fix_ns IS NULL THEN '' ELSE ' A copy takes ' || CAST(CAST(fix_ns / 1e3 AS DECIMAL(12, 1)) AS VARCHAR)
      || ' µs' || coalesce(', and pays from use ' || CAST(CAST(pays_from AS BIGINT) AS VARCHAR) || ' on', '') || '.' END,
  fact, advice, kernel, line, op, tensor_id, samples, share, saving_samples, saving_share, saving_low_ns, saving_high_ns,
  fix_ns, pays_from, cause, cause_rank,
  nullif(array_to_string(array_sort(array_distinct(array_remove_all(kinds, finding))), ', '), ''),
  row_number() OVER (
    ORDER BY found_by = 'finding_wrong_access' DESC, is_in_steps DESC, cause_rank = 1 DESC, finding IN ('cpu_bound', 'exposed_copy') DESC,
      coalesce(saving_low_ns < 0.0, false), saving_low_ns + saving_high_ns DESC NULLS LAST, saving_samples DESC, samples DESC,
      time_ns DESC NULLS LAST, finding, subject
  ),
  measured_share, time_ns, is_in_steps, found_by, query
FROM ranked
