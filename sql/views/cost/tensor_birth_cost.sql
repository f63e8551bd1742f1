-- The cost of all tensors with one allocation site: one name, or one op, line and shape.
--
-- A loop creates a tensor in each step. Here these tensors are one row. All rows add up to the samples.
CREATE VIEW tensor_birth_cost (
  -- tensor, or no tensor, no producer, self.
  charge,
  -- Name. Null if the tensors have none.
  name,
  -- Role in the model.
  role,
  -- Element type.
  dtype,
  -- Sizes, and strides if not contiguous.
  shape,
  -- The op that created them.
  op,
  -- The line that created them.
  birth_line,
  -- Tensors.
  tensor_count,
  -- Attributed samples.
  samples,
  -- Lower end of the 95 % confidence interval.
  samples_low,
  -- Upper end of the 95 % confidence interval.
  samples_high,
  -- Part of all samples.
  share,
  -- Part of the samples of memory stalls.
  memory_share,
  -- GPU time, nanoseconds. See `launch_time`.
  time_ns
) AS
WITH summed AS (
  SELECT
    charge, name, role, dtype, shape, op, birth_line,
    count(tensor_id) AS tensor_count,
    sum(samples) AS samples,
    coalesce(sum(samples * sample_weight) / nullif(sum(samples), 0.0), 1.0) AS weight,
    sum(share) AS share,
    sum(memory_share) AS memory_share,
    sum(time_ns) AS time_ns
  FROM tensor_stall_cost
  GROUP BY charge, name, role, dtype, shape, op, birth_line
)
SELECT
  charge, name, role, dtype, shape, op, birth_line, tensor_count,
  samples, poisson_low(samples / weight) * weight, poisson_high(samples / weight) * weight, share, memory_share,
  time_ns
FROM summed
