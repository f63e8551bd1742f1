-- One tensor's cost: samples of stalls attributed to it, by the join on (kernel_id, function_id, pc).
--
-- The cost is by the traffic to the tensor where memory is busy, else by waiting for it, as in `traffic_charge`.
-- Unattributed stalls are rows too, with a charge other than tensor and no tensor_id. All rows add up to the samples.
-- `samples_low` to `samples_high` is the 95 % confidence interval of their rate (Poisson). For the estimated time see
-- `sample_time` and `cost_time`.
CREATE VIEW tensor_stall_cost (
  -- tensor, or no tensor, no producer, self.
  charge,
  tensor_id,
  -- Its name.
  name,
  -- Role in the model.
  role,
  dtype,
  -- Sizes, and strides if not contiguous.
  shape,
  -- The op that made it.
  op,
  -- The line that allocated it.
  birth_line,
  -- The line whose kernels waited most for it.
  stalled_line,
  -- Attributed samples.
  samples,
  -- Lower end of the 95 % confidence interval.
  samples_low,
  -- Upper end of the 95 % confidence interval.
  samples_high,
  -- Weight of one counted sample among them, on average: 1 if the program was sampled. See `cost_run`.
  sample_weight,
  share,
  -- Share of the samples of memory stalls. Null for the charge self.
  memory_share,
  time_ns
) AS
WITH used AS (
  SELECT
    charge, tensor_id, line,
    sum(samples) AS samples,
    sum(memory_samples) AS memory_samples,
    sum(samples * sample_weight) AS variance,
    sum(time_ns) AS time_ns
  FROM tensor_cost
  GROUP BY charge, tensor_id, line
), summed AS (
  SELECT
    charge, tensor_id,
    first_value(line ORDER BY samples DESC, line) AS stalled_line,
    sum(samples) AS samples,
    sum(memory_samples) AS memory_samples,
    coalesce(sum(variance) / nullif(sum(samples), 0.0), 1.0) AS weight,
    sum(time_ns) AS time_ns
  FROM used
  GROUP BY charge, tensor_id
)
SELECT
  s.charge, s.tensor_id, t.name, t.role, t.dtype, t.shape, t.op, t.birth_line, s.stalled_line,
  s.samples,
  poisson_low(s.samples / s.weight) * s.weight,
  poisson_high(s.samples / s.weight) * s.weight,
  s.weight,
  s.samples / sum(s.samples) OVER (),
  CASE WHEN s.charge <> 'self' THEN s.memory_samples / sum(s.memory_samples) OVER () END,
  s.time_ns
FROM summed s
LEFT JOIN tensor_context t ON t.tensor_id = s.tensor_id
