-- One tensor's cost with every producer and every touched tensor counted in full, by the join on (pystates_hash, pc)
-- that drops the function. It serves only to compare with tools that count like this.
CREATE VIEW tenprof_stall_cost (
  tensor_id,
  -- Samples, counted in full.
  samples,
  -- Samples that `tensor_stall_cost` attributes to it.
  exact_samples,
  -- Factor of overcounting. Null if the exact attribution is 0.
  overcharge
) AS
WITH touched AS (
  SELECT DISTINCT coalesce(l.pystates_hash, 0) AS state, p.pc, p.tensor_id
  FROM pc_tensor p
  JOIN launch l ON l.kernel_id = p.kernel_id
  WHERE p.tensor_id IS NOT NULL
), sampled AS (
  SELECT coalesce(l.pystates_hash, 0) AS state, w.producer_pc, sum(s.samples) AS samples
  FROM sample s
  LEFT JOIN launch l ON l.kernel_id = s.kernel_id
  JOIN producer w ON w.function_id = s.function_id AND w.pc = s.pc AND w.stall_reason = s.stall_reason
  GROUP BY coalesce(l.pystates_hash, 0), w.producer_pc
), full_count AS (
  SELECT t.tensor_id, sum(s.samples) AS samples
  FROM sampled s
  JOIN touched t ON t.state = s.state AND t.pc = s.producer_pc
  GROUP BY t.tensor_id
), exact AS (
  SELECT tensor_id, sum(samples) AS samples FROM stall_charge WHERE charge = 'tensor' GROUP BY tensor_id
)
SELECT f.tensor_id, f.samples, coalesce(e.samples, 0.0), f.samples / nullif(e.samples, 0.0)
FROM full_count f
LEFT JOIN exact e ON e.tensor_id = f.tensor_id
