-- What one object cost, with its name: a tensor, a storage where no tensor of it is known, an allocation of the driver.
--
-- Stalls that no object bears are rows with a remainder: all rows sum to the samples taken.
CREATE VIEW object_cost (
  -- What it is: tensor, storage, outside any tensor; null, or why it is not known, where nothing bears the stalls.
  target,
  -- Its tensor_id, storage_id or allocation_id.
  object_id,
  -- Why no object bears it, in words; null where one does.
  remainder,
  -- Its name; what made it where it has none.
  object,
  -- Element type and shape of a tensor, bytes of everything else.
  type,
  -- The op that made it.
  op,
  -- The line that made it; in backward, the line whose gradient it is.
  born_at,
  -- The line whose kernels stalled most on it; in backward, the line whose gradient that is.
  stalled_at,
  -- Samples charged.
  samples,
  -- Lower end of their interval.
  samples_low,
  -- Upper end of their interval.
  samples_high,
  -- What one sample that was counted makes of them, on average; see `cost_run`.
  sample_weight,
  -- Part of all samples.
  share,
  -- Samples of memory stalls.
  memory_samples,
  -- Part of the samples of memory stalls; null for what is none.
  memory_share,
  -- Estimated time of the GPU, nanoseconds.
  estimated_ns
) AS
WITH used AS (
  SELECT
    target, object_id, remainder,
    coalesce(forward_line || ' (grad)', line, kernel) AS stalled_at,
    sum(samples) AS samples,
    sum(memory_samples) AS memory_samples,
    sum(samples * sample_weight) AS variance,
    sum(estimated_ns) AS estimated_ns
  FROM tensor_cost
  GROUP BY target, object_id, remainder, coalesce(forward_line || ' (grad)', line, kernel)
), summed AS (
  SELECT
    target, object_id, remainder,
    first_value(stalled_at ORDER BY samples DESC, stalled_at) AS stalled_at,
    sum(samples) AS samples,
    sum(memory_samples) AS memory_samples,
    coalesce(sum(variance) / nullif(sum(samples), 0.0), 1.0) AS weight,
    sum(estimated_ns) AS estimated_ns
  FROM used
  GROUP BY target, object_id, remainder
)
SELECT
  s.target, s.object_id, s.remainder,
  CASE WHEN s.remainder IS NULL THEN coalesce(t.name, 'unnamed') END,
  t.type, t.op, t.born_at, s.stalled_at,
  s.samples,
  poisson_low(s.samples / s.weight) * s.weight,
  poisson_high(s.samples / s.weight) * s.weight,
  s.weight,
  s.samples / nullif(sum(s.samples) OVER (), 0.0),
  s.memory_samples,
  CASE WHEN s.memory_samples > 0.0 THEN s.memory_samples / sum(s.memory_samples) OVER () END,
  s.estimated_ns
FROM summed s
LEFT JOIN target_context t ON t.target = s.target AND t.object_id = s.object_id
