-- One object's cost, with its name: a tensor, a storage without a known tensor, a driver allocation.
--
-- The cost is by the traffic to the object where memory is busy, else by waiting for it, as in `traffic_charge`. Unattributed stalls are rows with a remainder. All rows add up to the samples.
CREATE VIEW object_cost (
  -- Type of the object: tensor, storage, outside any tensor. For unattributed stalls, null or the cause.
  target,
  object_id,
  -- Label of unattributed stalls. Null for an object.
  remainder,
  -- Its name, else one made from its op or size.
  object,
  -- Its label for users, as in `target_context`. Never join by it.
  label,
  -- Origin of the label.
  label_source,
  -- Element type and shape of a tensor, bytes of everything else.
  type,
  -- The op that made it.
  op,
  -- The line that allocated it. In backward, the line whose gradient it is.
  born_at,
  -- The line whose kernels waited most for it. In backward, the line whose gradient that is. Without lines, the kernel.
  stalled_at,
  -- Attributed samples.
  samples,
  -- Lower end of the 95 % confidence interval.
  samples_low,
  -- Upper end of the 95 % confidence interval.
  samples_high,
  -- Weight of one counted sample among them, on average. See `cost_run`.
  sample_weight,
  share,
  memory_samples,
  -- Share of the samples of memory stalls. Null for other stalls.
  memory_share,
  -- Samples of warps that wait for it, as in `stall_charge`. More or less than `samples` only where memory is busy.
  waited_samples,
  time_ns,
  -- The family that rankings sum it in, as in `target_context`.
  family,
  -- Its type.
  family_type,
  -- Its smallest object.
  family_id
) AS
WITH used AS (
  SELECT
    target, object_id, remainder,
    coalesce(line_label(line, forward_line), kernel_label(kernel)) AS stalled_at,
    sum(samples) AS samples,
    sum(memory_samples) AS memory_samples,
    sum(waited_samples) AS waited_samples,
    sum(samples * sample_weight) AS variance,
    sum(time_ns) AS time_ns
  FROM tensor_cost
  GROUP BY target, object_id, remainder, coalesce(line_label(line, forward_line), kernel_label(kernel))
), summed AS (
  SELECT
    target, object_id, remainder,
    first_value(stalled_at ORDER BY samples DESC, stalled_at) AS stalled_at,
    sum(samples) AS samples,
    sum(memory_samples) AS memory_samples,
    sum(waited_samples) AS waited_samples,
    coalesce(sum(variance) / nullif(sum(samples), 0.0), 1.0) AS weight,
    sum(time_ns) AS time_ns
  FROM used
  GROUP BY target, object_id, remainder
)
SELECT
  s.target, s.object_id, s.remainder,
  CASE WHEN s.remainder IS NULL THEN coalesce(t.name, 'unnamed') END,
  CASE WHEN s.remainder IS NULL THEN coalesce(t.label, 'unnamed') END, t.label_source,
  t.type, t.op, t.born_at, s.stalled_at,
  s.samples,
  poisson_low(s.samples / s.weight) * s.weight,
  poisson_high(s.samples / s.weight) * s.weight,
  s.weight,
  s.samples / nullif(sum(s.samples) OVER (), 0.0),
  s.memory_samples,
  CASE WHEN s.memory_samples > 0.0 THEN s.memory_samples / sum(s.memory_samples) OVER () END,
  s.waited_samples,
  s.time_ns,
  CASE WHEN s.remainder IS NULL THEN coalesce(t.family, 'unnamed') END,
  t.family_type,
  t.family_id
FROM summed s
LEFT JOIN target_context t ON t.target = s.target AND t.object_id = s.object_id
