-- Tensors
-- Targets of each instruction. share: part of the instruction's sectors. charged: samples of warps that waited for it.
-- Without observed accesses, the target follows from the code.
WITH counted AS (
  SELECT
    p.function_id, p.pc, CAST(p.target AS VARCHAR) AS target, coalesce(p.tensor_id, p.storage_id, p.allocation_id) AS id,
    p.request_count, p.sectors, p.ideal_sectors, 0.0 AS charged
  FROM pc_tensor p
  JOIN launch l ON l.kernel_id = p.kernel_id
  WHERE l.function_id = $function
  UNION ALL
  SELECT
    c.function_id, c.pc, c.target, c.object_id, 0, 0, 0, c.samples
  FROM producer_charge c
  JOIN launch l ON l.kernel_id = c.kernel_id
  WHERE l.function_id = $function AND c.target NOT IN (
    'not observed', 'no memory', 'not global', 'signal', 'mbarrier', 'tensor cores', 'arithmetic')
), named AS (
  SELECT
    c.function_id, c.pc, coalesce(t.label, '(' || c.target || ')') AS tensor, t.type, t.born_at,
    sum(c.request_count) AS requests, sum(c.sectors) AS sectors, sum(c.ideal_sectors) AS ideal_sectors,
    sum(c.charged) AS charged_samples
  FROM counted c
  LEFT JOIN target_context t ON t.target = c.target AND t.object_id = c.id
  GROUP BY c.function_id, c.pc, coalesce(t.label, '(' || c.target || ')'), t.type, t.born_at
)
SELECT
  function_id, pc, tensor, type, born_at,
  sectors / nullif(CAST(sum(sectors) OVER (PARTITION BY function_id, pc) AS DOUBLE), 0.0) AS share,
  requests, sectors, ideal_sectors, charged_samples
FROM named
ORDER BY function_id <> $function, function_id, pc, share DESC, charged_samples DESC, tensor, type, born_at
