-- What the tensors of one birth cost together: those of one name, or made by one op at one line with one shape.
--
-- A loop makes a tensor anew in each step; here they are one row. All rows sum to the samples taken.
CREATE VIEW tensor_birth_cost (
  -- tensor, or no tensor, no producer, self.
  charge,
  -- Name; null where the tensors have none.
  name,
  -- What they are to the model.
  role,
  -- Element type.
  dtype,
  -- Sizes, and strides where they are not contiguous.
  shape,
  -- The op that made them.
  op,
  -- The line that made them.
  birth_line,
  -- Tensors.
  tensor_count,
  -- Samples charged.
  samples,
  -- Lower end of their interval.
  samples_low,
  -- Upper end of their interval.
  samples_high,
  -- Part of all samples.
  share,
  -- Part of the samples of memory stalls.
  memory_share,
  -- Estimated time of the GPU, nanoseconds.
  estimated_ns
) AS
WITH summed AS (
  SELECT
    charge, name, role, dtype, shape, op, birth_line,
    count(tensor_id) AS tensor_count,
    sum(samples) AS samples,
    coalesce(sum(samples * sample_weight) / nullif(sum(samples), 0.0), 1.0) AS weight,
    sum(share) AS share,
    sum(memory_share) AS memory_share,
    sum(estimated_ns) AS estimated_ns
  FROM tensor_stall_cost
  GROUP BY charge, name, role, dtype, shape, op, birth_line
)
SELECT
  charge, name, role, dtype, shape, op, birth_line, tensor_count,
  samples, poisson_low(samples / weight) * weight, poisson_high(samples / weight) * weight, share, memory_share,
  estimated_ns
FROM summed
