-- Tensors by stall cost
-- Samples of warps that waited for a tensor's data; low to high holds 95 of 100 repetitions. Equal tensors are one row.
-- (no tensor): the access is known, its tensor is not. (no producer): no access was found that the stall waits for.
-- (self): stalls that wait for no memory. All rows together are the samples taken.
WITH cost AS (
  SELECT
    charge, name, role, dtype, shape, op, birth_line,
    first_value(stalled_line ORDER BY samples DESC, stalled_line) AS stalled_line,
    count(*) AS tensor_count,
    sum(samples) AS samples,
    sum(share) AS share,
    sum(memory_share) AS memory_share,
    sum(estimated_ns) AS estimated_ns
  FROM tensor_stall_cost
  GROUP BY charge, name, role, dtype, shape, op, birth_line
), ranked AS (
  SELECT *, row_number() OVER (
    PARTITION BY charge ORDER BY samples DESC, name, role, dtype, shape, op, birth_line
  ) AS rank
  FROM cost
), placed AS (
  -- 1 to $top are tensors, then the others together, then each remainder.
  SELECT *, CASE charge WHEN 'tensor' THEN least(rank, $top + 1) WHEN 'no tensor' THEN 2000000000
    WHEN 'no producer' THEN 2000000001 ELSE 2000000002 END AS place
  FROM ranked
)
SELECT
  sum(share) AS share,
  sum(memory_share) AS memory_share,
  sum(samples) AS samples,
  poisson_low(sum(samples)) AS low,
  poisson_high(sum(samples)) AS high,
  sum(estimated_ns) AS time_ns,
  sum(tensor_count) AS tensors,
  CASE
    WHEN max(charge) <> 'tensor' THEN '(' || max(charge) || ')'
    WHEN place > $top THEN '(' || CAST(sum(tensor_count) AS VARCHAR) || ' other tensors)'
    WHEN max(name) IS NULL THEN coalesce('result of ' || max(op), 'unnamed')
    WHEN max(role) IN ('gradient', 'optimizer_state') THEN replace(max(role), '_', ' ') || ' of ' || max(name)
    ELSE max(name)
  END AS tensor,
  CASE WHEN place <= $top THEN max(dtype) || ' ' || max(shape) END AS type,
  CASE WHEN place <= $top THEN max(op) END AS op,
  CASE WHEN place <= $top THEN max(birth_line) END AS born_at,
  CASE WHEN place <= $top THEN max(stalled_line) END AS stalled_at
FROM placed
GROUP BY place
ORDER BY place
