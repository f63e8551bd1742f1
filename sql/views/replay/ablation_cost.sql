-- One experiment of `stallmap-record replay --ablate`: the time that its instructions cost, next to the samples that are
-- attributed to them.
--
-- `saved_share` is measured, `charged_share` is the cost of the same instructions by `traffic_charge`. The two differ where
-- waits overlap: without one of two loads that are equally late, a warp waits for the other.
CREATE VIEW ablation_cost (
  -- The run of the experiments.
  run_id,
  kernel_id,
  -- The n-th experiment on this launch in the run.
  experiment,
  -- Accesses that are left out: tensor (all of one tensor), line (all of one source line), instruction.
  target,
  is_cold,
  -- The launch's kernel.
  function_id,
  -- The tensor with the most lanes of these instructions. Null if they access none, or if several are left out together.
  tensor_id,
  -- The label of that tensor, or of the memory outside tensors. Of several that are left out together, all labels. Null if
  -- it is not known.
  label,
  -- Source line of the first instruction. Null without line information.
  source_line,
  -- Mnemonic of the first instruction.
  mnemonic,
  -- Instructions that are left out.
  instruction_count,
  -- Replays of the launch with and without them.
  round_count,
  -- Time of the launch, nanoseconds: the median.
  whole_ns,
  -- Time that the instructions cost, nanoseconds. Null where nothing was measured.
  saved_ns,
  -- Lower end of its 95 % confidence interval.
  saved_low_ns,
  -- Upper end of its 95 % confidence interval.
  saved_high_ns,
  -- `saved_ns` as a share of the launch's time.
  saved_share,
  -- Samples of the launch that these instructions cost.
  samples,
  -- Their share of all samples of the launch. Null without samples.
  charged_share,
  -- Samples of warps that wait for these instructions.
  waited_samples,
  -- Their share of all samples of the launch. Null without samples.
  waited_share,
  -- The reason that nothing was measured.
  refusal
) AS
WITH instruction_of AS (
  SELECT
    a.run_id, a.kernel_id, a.experiment, count(*) AS instruction_count,
    first_value(i.file ORDER BY a.function_id, a.pc) || ':'
      || CAST(first_value(i.line ORDER BY a.function_id, a.pc) AS VARCHAR) AS source_line,
    first_value(i.mnemonic ORDER BY a.function_id, a.pc) AS mnemonic
  FROM ablation_instruction a
  LEFT JOIN instruction i ON i.function_id = a.function_id AND i.pc = a.pc
  GROUP BY a.run_id, a.kernel_id, a.experiment
), charged AS (
  SELECT
    a.run_id, a.kernel_id, a.experiment, sum(c.samples) AS samples, sum(c.waited_samples) AS waited_samples
  FROM ablation_instruction a
  JOIN traffic_charge c ON c.kernel_id = a.kernel_id AND c.function_id = a.function_id AND c.pc = a.pc
  GROUP BY a.run_id, a.kernel_id, a.experiment
), accessed AS (
  SELECT
    a.run_id, a.kernel_id, a.experiment, CAST(p.target AS VARCHAR) AS target, coalesce(p.tensor_id, p.storage_id, p.allocation_id) AS object_id,
    p.tensor_id, sum(p.lane_count) AS lane_count
  FROM ablation_instruction a
  JOIN pc_tensor p ON p.kernel_id = a.kernel_id AND p.function_id = a.function_id AND p.pc = a.pc
  GROUP BY a.run_id, a.kernel_id, a.experiment, CAST(p.target AS VARCHAR), coalesce(p.tensor_id, p.storage_id, p.allocation_id), p.tensor_id
), object AS (
  SELECT
    run_id, kernel_id, experiment,
    first_value(target ORDER BY lane_count DESC, object_id) AS target,
    first_value(object_id ORDER BY lane_count DESC, object_id) AS object_id,
    first_value(tensor_id ORDER BY lane_count DESC, object_id) AS tensor_id
  FROM accessed
  GROUP BY run_id, kernel_id, experiment
), objects AS (
  SELECT
    a.run_id, a.kernel_id, a.experiment, string_agg(t.label, ', ' ORDER BY a.lane_count DESC, a.object_id) AS labels
  FROM accessed a
  JOIN target_context t ON t.target = a.target AND t.object_id = a.object_id
  GROUP BY a.run_id, a.kernel_id, a.experiment
), total AS (
  SELECT kernel_id, sum(samples) AS samples FROM sample GROUP BY kernel_id
)
SELECT
  a.run_id, a.kernel_id, a.experiment, a.target, a.is_cold, l.function_id,
  CASE WHEN a.target <> 'tensors' THEN o.tensor_id END, CASE WHEN a.target = 'tensors' THEN n.labels ELSE t.label END,
  i.source_line, i.mnemonic, coalesce(i.instruction_count, 0), a.round_count, a.whole_ns, a.saved_ns, a.saved_low_ns,
  a.saved_high_ns, a.saved_ns / nullif(a.whole_ns, 0.0), coalesce(c.samples, 0.0),
  CASE WHEN s.samples > 0.0 THEN coalesce(c.samples, 0.0) / s.samples END, coalesce(c.waited_samples, 0.0),
  CASE WHEN s.samples > 0.0 THEN coalesce(c.waited_samples, 0.0) / s.samples END, a.refusal
FROM ablation a
JOIN launch l ON l.kernel_id = a.kernel_id
LEFT JOIN instruction_of i ON i.run_id = a.run_id AND i.kernel_id = a.kernel_id AND i.experiment = a.experiment
LEFT JOIN charged c ON c.run_id = a.run_id AND c.kernel_id = a.kernel_id AND c.experiment = a.experiment
LEFT JOIN object o ON o.run_id = a.run_id AND o.kernel_id = a.kernel_id AND o.experiment = a.experiment
LEFT JOIN objects n ON n.run_id = a.run_id AND n.kernel_id = a.kernel_id AND n.experiment = a.experiment
LEFT JOIN target_context t ON t.target = o.target AND t.object_id = o.object_id
LEFT JOIN total s ON s.kernel_id = a.kernel_id
