-- Tensors by stall cost
-- Samples of warps that waited for a tensor's data, or for an allocation outside any tensor; low to high holds 95 of 100
-- repetitions; time is estimated from the sampling period. Equal tensors are one row. Rows in parentheses are stalls
-- that no object bears: all rows together are the samples taken. (grad): in backward, the line whose gradient it is.
WITH charged AS (
  SELECT
    c.charge, c.target, c.tensor_id, c.allocation_id,
    CASE WHEN c.tensor_id IS NULL THEN c.storage_id END AS storage_id,
    coalesce(l.forward_line || ' (grad)', l.line, l.kernel) AS line,
    sum(c.samples) AS samples,
    sum(CASE WHEN c.is_memory THEN c.samples ELSE 0.0 END) AS memory_samples,
    sum(c.samples * c.scale) AS variance,
    sum(c.samples * t.sample_ns) AS estimated_ns
  FROM stall_charge c
  LEFT JOIN launch_context l ON l.kernel_id = c.kernel_id
  LEFT JOIN cost_time t ON t.run_id = c.run_id AND t.kernel_id = c.kernel_id
  GROUP BY c.charge, c.target, c.tensor_id, c.allocation_id,
    CASE WHEN c.tensor_id IS NULL THEN c.storage_id END, coalesce(l.forward_line || ' (grad)', l.line, l.kernel)
), named AS (
  SELECT
    c.tensor_id, c.line, c.samples, c.memory_samples, c.variance, c.estimated_ns,
    CASE
      WHEN c.charge = 'self' THEN '(not waiting for memory)'
      WHEN c.charge = 'no producer' THEN '(no access found that the stall waits for)'
      WHEN c.charge = 'tensor' OR c.storage_id IS NOT NULL OR c.allocation_id IS NOT NULL THEN NULL
      WHEN c.target = 'not global' THEN '(shared, local or constant memory)'
      WHEN c.target = 'mbarrier' THEN '(mbarriers: other warps, or copies not known)'
      WHEN c.target = 'no memory' THEN '(instructions that access no memory)'
      WHEN c.target = 'not observed' THEN '(accesses not recorded)'
      ELSE '(' || c.target || ')'
    END AS remainder,
    CASE
      WHEN c.charge = 'tensor' AND t.name IS NULL THEN coalesce('result of ' || t.op, 'unnamed')
      WHEN c.charge = 'tensor' AND t.role IN ('gradient', 'optimizer_state')
        THEN replace(t.role, '_', ' ') || ' of ' || t.name
      WHEN c.charge = 'tensor' THEN t.name
      WHEN c.storage_id IS NOT NULL THEN coalesce('memory of ' || o.name, 'memory of no tensor')
      -- The number of the allocation in its run.
      WHEN c.allocation_id IS NOT NULL THEN 'allocation ' || CAST(c.allocation_id % 1099511627776 AS VARCHAR)
    END AS tensor,
    coalesce(t.dtype || ' ' || t.shape, CAST(coalesce(s.size_bytes, a.size_bytes) AS VARCHAR) || ' bytes') AS type,
    coalesce(t.op, o.name) AS op,
    coalesce(t.birth_forward_line || ' (grad)', t.birth_line, p.line) AS born_at
  FROM charged c
  LEFT JOIN tensor_context t ON t.tensor_id = c.tensor_id
  LEFT JOIN storage s ON s.storage_id = c.storage_id
  LEFT JOIN op o ON o.op_id = s.op_id
  LEFT JOIN python_stack p ON p.pystates_hash = o.pystates_hash
  LEFT JOIN device_allocation a ON a.allocation_id = c.allocation_id
), cost AS (
  SELECT
    remainder, tensor, type, op, born_at,
    first_value(line ORDER BY samples DESC, line) AS stalled_at,
    count(DISTINCT tensor_id) AS tensors,
    sum(samples) AS samples,
    sum(memory_samples) AS memory_samples,
    sum(variance) AS variance,
    sum(estimated_ns) AS estimated_ns
  FROM named
  GROUP BY remainder, tensor, type, op, born_at
), placed AS (
  -- Objects by cost, the others together, then the remainders by cost.
  SELECT *, CASE WHEN remainder IS NULL THEN least($top + 1, row_number() OVER (
    PARTITION BY remainder IS NULL ORDER BY samples DESC, tensor, type, op, born_at
  )) ELSE $top + 1 + row_number() OVER (
    PARTITION BY remainder IS NULL ORDER BY remainder = '(not waiting for memory)', samples DESC, remainder
  ) END AS place
  FROM cost
), summed AS (
  SELECT
    place, sum(samples) AS samples, sum(memory_samples) AS memory_samples, sum(estimated_ns) AS estimated_ns,
    coalesce(sum(variance) / nullif(sum(samples), 0.0), 1.0) AS weight,
    sum(tensors) AS tensors, count(*) AS objects, max(remainder) AS remainder, max(tensor) AS tensor, max(type) AS type,
    max(op) AS op, max(born_at) AS born_at, max(stalled_at) AS stalled_at
  FROM placed
  GROUP BY place
)
SELECT
  samples / sum(samples) OVER () AS share,
  CASE WHEN memory_samples > 0 THEN memory_samples / sum(memory_samples) OVER () END AS memory_share,
  samples,
  poisson_low(samples / weight) * weight AS low,
  poisson_high(samples / weight) * weight AS high,
  estimated_ns AS time_ns,
  nullif(tensors, 0) AS tensors,
  CASE WHEN place = $top + 1 THEN '(' || CAST(objects AS VARCHAR) || ' others)' ELSE coalesce(remainder, tensor) END
    AS tensor,
  CASE WHEN place <= $top THEN type END AS type,
  CASE WHEN place <= $top THEN op END AS op,
  CASE WHEN place <= $top THEN born_at END AS born_at,
  CASE WHEN place <= $top THEN stalled_at END AS stalled_at
FROM summed
ORDER BY place
