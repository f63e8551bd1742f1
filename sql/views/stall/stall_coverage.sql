-- Attribution of a capture's memory stalls: one fact per row, and the samples that it holds for.
CREATE VIEW stall_coverage (
  -- Position in the reading order, from 1.
  ordinal,
  -- Fact about the samples.
  item,
  -- Samples that it holds for.
  samples,
  -- All samples of memory stalls.
  memory_samples
) AS
WITH charge AS (
  SELECT
    sum(CASE WHEN is_memory THEN samples ELSE 0.0 END) AS memory,
    sum(CASE WHEN charge IN ('tensor', 'no tensor') THEN samples ELSE 0.0 END) AS producer,
    sum(CASE WHEN is_memory AND confidence = 'exact' THEN samples ELSE 0.0 END) AS exact,
    sum(CASE WHEN is_memory AND confidence = 'refined' THEN samples ELSE 0.0 END) AS refined,
    sum(CASE WHEN is_memory AND confidence = 'latency' THEN samples ELSE 0.0 END) AS latency,
    sum(CASE WHEN is_memory AND confidence = 'shared' THEN samples ELSE 0.0 END) AS shared,
    sum(CASE WHEN is_memory AND confidence = 'approximate' THEN samples ELSE 0.0 END) AS approximate,
    sum(CASE WHEN is_memory AND confidence = 'low' THEN samples ELSE 0.0 END) AS low,
    sum(CASE WHEN charge = 'tensor' THEN samples ELSE 0.0 END) AS tensor,
    sum(CASE WHEN charge = 'tensor' OR storage_id IS NOT NULL OR allocation_id IS NOT NULL THEN samples ELSE 0.0 END)
      AS named
  FROM launch_charge
  LIMIT 1
)
SELECT
  k.ordinal, k.item,
  CASE k.ordinal WHEN 1 THEN c.producer WHEN 2 THEN c.exact WHEN 3 THEN c.refined WHEN 4 THEN c.latency
                 WHEN 5 THEN c.shared WHEN 6 THEN c.approximate WHEN 7 THEN c.low WHEN 8 THEN c.tensor ELSE c.named END AS samples,
  c.memory
FROM charge c
-- A program without tensors has allocations only.
CROSS JOIN (SELECT count(*) AS tensors FROM tensor LIMIT 1) t
CROSS JOIN (VALUES
  (1, 'with a producer'), (2, 'with a producer, exact'), (3, 'with a producer, refined'),
  (4, 'with several producers, divided by latency'), (5, 'with producers that share them'),
  (6, 'with a producer, approximate'), (7, 'with a producer, low confidence'), (8, 'with a tensor'),
  (9, 'with a tensor or an allocation')
) AS k(ordinal, item)
WHERE k.ordinal <> 8 OR t.tensors > 0
