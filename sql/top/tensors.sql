-- Tensors by cost
-- Samples of warps that waited for a tensor's data; low to high holds 95 of 100 repetitions. Equal tensors are one
-- row; stalls that no tensor bears are in parentheses: all rows together are the samples taken.
WITH named AS (
  SELECT
    *,
    CASE charge
      WHEN 'tensor' THEN NULL
      WHEN 'self' THEN '(not waiting for memory)'
      WHEN 'no producer' THEN '(no access found that the stall waits for)'
      ELSE '(memory of no tensor)'
    END AS remainder,
    CASE
      WHEN charge <> 'tensor' THEN NULL
      WHEN name IS NULL THEN coalesce('result of ' || op, 'unnamed')
      WHEN role IN ('gradient', 'optimizer_state') THEN replace(role, '_', ' ') || ' of ' || name
      ELSE name
    END AS tensor,
    dtype || ' ' || shape AS type
  FROM tensor_stall_cost
), cost AS (
  SELECT
    remainder, tensor, type, op, birth_line,
    first_value(stalled_line ORDER BY samples DESC, stalled_line) AS stalled_line,
    count(tensor_id) AS tensors,
    sum(samples) AS samples,
    sum(samples * sample_weight) AS variance,
    sum(share) AS share,
    sum(memory_share) AS memory_share,
    sum(estimated_ns) AS estimated_ns
  FROM named
  GROUP BY remainder, tensor, type, op, birth_line
), placed AS (
  -- Tensors by cost, the others together, then the remainders by cost.
  SELECT *, CASE WHEN remainder IS NULL THEN least($top + 1, row_number() OVER (
    PARTITION BY remainder IS NULL ORDER BY $sort DESC NULLS LAST, samples DESC, tensor, type, op, birth_line
  )) ELSE $top + 1 + row_number() OVER (
    PARTITION BY remainder IS NULL ORDER BY remainder = '(not waiting for memory)', samples DESC, remainder
  ) END AS place
  FROM cost
), summed AS (
  SELECT
    place, sum(share) AS share, sum(memory_share) AS memory_share, sum(samples) AS samples,
    coalesce(sum(variance) / nullif(sum(samples), 0.0), 1.0) AS weight,
    sum(estimated_ns) AS estimated_ns, sum(tensors) AS tensors, count(*) AS rows, max(remainder) AS remainder,
    max(tensor) AS tensor, max(type) AS type, max(op) AS op, max(birth_line) AS birth_line,
    max(stalled_line) AS stalled_line
  FROM placed
  GROUP BY place
)
SELECT
  share, memory_share, samples,
  poisson_low(samples / weight) * weight AS low,
  poisson_high(samples / weight) * weight AS high,
  estimated_ns AS time_ns,
  nullif(tensors, 0) AS tensors,
  CASE WHEN place = $top + 1 THEN '(' || CAST(rows AS VARCHAR) || ' others)' ELSE coalesce(remainder, tensor) END
    AS tensor,
  CASE WHEN place <= $top THEN type END AS type,
  CASE WHEN place <= $top THEN op END AS op,
  CASE WHEN place <= $top THEN birth_line END AS born_at,
  CASE WHEN place <= $top THEN stalled_line END AS stalled_at
FROM summed
ORDER BY place
