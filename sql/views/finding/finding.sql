-- One inefficiency: its subject, location, cost, fix and evidence.
--
-- Each kind has a view of its own, with its rule, its thresholds and the formula of the saving. `samples` are part of
-- all samples, and `saving_samples` is the upper bound that a complete fix saves. Samples of too_few_blocks
-- stand for parts of the time, because no sample shows idle multiprocessors. Two findings can share samples, so
-- savings do not add up. Rank by `saving_samples`. Where experiments left out all accesses of the subject
-- (`ablation_cost`), the saving is no more than they measured.
--
-- A finding whose cost is measured by samples needs evidence: the lower end of the 95 % CI of their rate is a thousandth
-- or more of all samples.
CREATE VIEW finding (
  -- The kind of inefficiency.
  finding,
  -- Its subject: a tensor in a kernel, a kernel, a line, an op.
  subject,
  -- Sentence with the inefficiency, its location and its cost.
  sentence,
  -- The measured fact in few words.
  fact,
  -- Recommended change.
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
  -- Upper bound of samples that a fix saves.
  saving_samples,
  -- Their part of all samples.
  saving_share,
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
  -- SQL that shows its evidence.
  query
) AS
WITH found AS (
  SELECT *, 'finding_access' AS found_by FROM finding_access
  UNION ALL
  SELECT *, 'finding_backward' FROM finding_backward
  UNION ALL
  SELECT *, 'finding_bank_conflict' FROM finding_bank_conflict
  UNION ALL
  SELECT *, 'finding_code' FROM finding_code
  UNION ALL
  SELECT *, 'finding_copy' FROM finding_copy
  UNION ALL
  SELECT *, 'finding_cpu' FROM finding_cpu
  UNION ALL
  SELECT *, 'finding_first_launch' FROM finding_first_launch
  UNION ALL
  SELECT *, 'finding_fusion' FROM finding_fusion
  UNION ALL
  SELECT *, 'finding_memory' FROM finding_memory
  UNION ALL
  SELECT *, 'finding_occupancy' FROM finding_occupancy
  UNION ALL
  SELECT *, 'finding_redundant_load' FROM finding_redundant_load
  UNION ALL
  SELECT *, 'finding_stall' FROM finding_stall
  UNION ALL
  SELECT *, 'finding_traffic' FROM finding_traffic
  UNION ALL
  SELECT *, 'finding_wrong_access' FROM finding_wrong_access
), launched AS (
  SELECT
    coalesce(l.forward_line || ' (grad)', l.line) AS line, l.kernel,
    CASE WHEN p.program_phase IN ('steady', 'once') THEN 1 ELSE 0 END AS is_steady
  FROM launch_context l
  JOIN launch_phase p ON p.kernel_id = l.kernel_id
), steady_line AS (
  SELECT line, max(is_steady) AS is_steady FROM launched WHERE line IS NOT NULL GROUP BY line
), steady_kernel AS (
  SELECT kernel, max(is_steady) AS is_steady FROM launched WHERE kernel IS NOT NULL GROUP BY kernel
), ablated AS (
  -- The time that its accesses cost as samples, by the samples that wait for them.
  SELECT
    a.label || ' in ' || n.short_kernel AS subject,
    greatest(sum(a.saved_ns) / sum(a.whole_ns), 0.0) AS measured_share,
    greatest(sum(a.saved_share * a.waited_samples / a.waited_share) / sum(a.waited_samples), 0.0) AS saved_per_sample
  FROM ablation_cost a
  JOIN kernel_name n ON n.function_id = a.function_id
  WHERE a.target = 'tensor' AND a.saved_ns IS NOT NULL AND a.waited_share > 0.0
  GROUP BY a.label, n.short_kernel, a.is_cold
), measured AS (
  SELECT subject, max(measured_share) AS measured_share, max(saved_per_sample) AS saved_per_sample
  FROM ablated
  GROUP BY subject
), bounded AS (
  SELECT f.* EXCEPT (saving_samples), m.measured_share,
    f.saving_samples * least(coalesce(m.saved_per_sample, 1.0), 1.0) AS saving_samples
  FROM found f
  LEFT JOIN measured m ON m.subject = f.subject
), shared AS (
  SELECT
    f.*,
    CASE WHEN f.samples > 0.0 THEN f.samples / t.samples END AS share,
    CASE WHEN f.samples > 0.0 THEN f.saving_samples / t.samples END AS saving_share,
    f.samples = 0.0 OR poisson_low(f.samples / w.weight) * w.weight >= 0.001 * t.samples AS is_evident
  FROM bounded f
  CROSS JOIN (SELECT sum(samples) AS samples FROM launch_sample LIMIT 1) t
  CROSS JOIN (SELECT coalesce(max(scale), 1.0) AS weight FROM cost_run LIMIT 1) w
)
SELECT
  finding, subject,
  sentence || CASE WHEN samples > 0.0 THEN ' It costs '
    || CASE WHEN share < 0.001 THEN 'less than 0.1' ELSE CAST(CAST(100 * share AS DECIMAL(9, 1)) AS VARCHAR) END
    || CASE WHEN finding = 'too_few_blocks' AND time_ns IS NOT NULL THEN ' % of the time of all launches'
      ELSE ' % of all samples' END || '. A fix saves up to '
    || CASE WHEN saving_share < 0.001 THEN 'less than 0.1' ELSE CAST(CAST(100 * saving_share AS DECIMAL(9, 1)) AS VARCHAR) END
    || ' %.' ELSE '' END || coalesce(' Measured: without these accesses its launches take '
    || CAST(CAST(100 * measured_share AS DECIMAL(9, 1)) AS VARCHAR) || ' % less time.', ''),
  fact, advice, s.kernel, s.line, op, tensor_id, samples, share, saving_samples, saving_share, measured_share, time_ns,
  coalesce(l.is_steady, k.is_steady, 1) = 1 AND NOT (finding = 'slow_first_launch' AND coalesce(p.has_steps, 0) = 1),
  found_by, query
FROM shared s
LEFT JOIN steady_line l ON l.line = s.line
LEFT JOIN steady_kernel k ON k.kernel = s.kernel
CROSS JOIN (SELECT max(CASE WHEN program_phase = 'steady' THEN 1 ELSE 0 END) AS has_steps FROM launch_phase) p
WHERE is_evident
