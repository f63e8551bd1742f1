-- One tensor's cost by the join on (pystates_hash, function_id, pc), for samples and accesses of launches that cannot
-- be matched one to one. The access pattern of all launches from one Python state and function is distributed over the
-- samples of all launches from it.
CREATE VIEW tensor_stall_cost_by_pystate (
  -- tensor, or no tensor, no producer, self.
  charge,
  tensor_id,
  -- Its name.
  name,
  dtype,
  -- Sizes, and strides if not contiguous.
  shape,
  -- The op that made it.
  op,
  -- The line that allocated it.
  birth_line,
  -- Attributed samples.
  samples,
  share
) AS
WITH touched AS (
  SELECT
    coalesce(l.pystates_hash, 0) AS state, p.function_id, p.pc, p.tensor_id,
    CAST(sum(p.sectors) AS DOUBLE) AS sectors
  FROM pc_tensor p
  JOIN launch l ON l.kernel_id = p.kernel_id
  GROUP BY coalesce(l.pystates_hash, 0), p.function_id, p.pc, p.tensor_id
), mapped AS (
  -- Copies by tensor maps, whose accesses are not observed: each launch has the same weight.
  SELECT coalesce(l.pystates_hash, 0) AS state, p.function_id, p.pc, p.tensor_id, sum(p.share) AS sectors
  FROM pc_tensor_share p
  JOIN launch l ON l.kernel_id = p.kernel_id
  WHERE p.evidence = 'derived'
  GROUP BY coalesce(l.pystates_hash, 0), p.function_id, p.pc, p.tensor_id
), known AS (
  SELECT state, function_id, pc, tensor_id, sectors FROM touched WHERE sectors > 0
  UNION ALL
  SELECT m.state, m.function_id, m.pc, m.tensor_id, m.sectors
  FROM mapped m
  LEFT ANTI JOIN touched t ON t.state = m.state AND t.function_id = m.function_id AND t.pc = m.pc
), part AS (
  SELECT
    state, function_id, pc, tensor_id,
    sectors / sum(sectors) OVER (PARTITION BY state, function_id, pc) AS share
  FROM known
), sampled AS (
  SELECT coalesce(l.pystates_hash, 0) AS state, s.function_id, s.pc, s.stall_reason, sum(s.samples) AS samples
  FROM sample s
  LEFT JOIN launch l ON l.kernel_id = s.kernel_id
  GROUP BY coalesce(l.pystates_hash, 0), s.function_id, s.pc, s.stall_reason
), charged AS (
  SELECT
    CASE WHEN w.remainder IS NOT NULL THEN w.remainder WHEN p.tensor_id IS NULL THEN 'no tensor' ELSE 'tensor' END
      AS charge,
    p.tensor_id,
    sum(s.samples * w.weight * coalesce(p.share, 1.0)) AS samples
  FROM sampled s
  JOIN producer w ON w.function_id = s.function_id AND w.pc = s.pc AND w.stall_reason = s.stall_reason
  LEFT JOIN part p ON p.state = s.state AND p.function_id = w.producer_function_id AND p.pc = w.producer_pc
  GROUP BY 1, 2
)
SELECT
  c.charge, c.tensor_id, t.name, t.dtype, t.shape, t.op, t.birth_line, c.samples,
  c.samples / sum(c.samples) OVER ()
FROM charged c
LEFT JOIN tensor_context t ON t.tensor_id = c.tensor_id
