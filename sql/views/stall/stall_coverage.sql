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
SELECT
  k.ordinal, k.item,
  CASE k.ordinal WHEN 1 THEN c.producer_samples WHEN 2 THEN c.exact_samples WHEN 3 THEN c.refined_samples
    WHEN 4 THEN c.latency_samples WHEN 5 THEN c.shared_samples WHEN 6 THEN c.approximate_samples
    WHEN 7 THEN c.low_samples WHEN 8 THEN c.tensor_samples ELSE c.named_samples END AS samples,
  c.memory_samples
FROM (SELECT * FROM charge_sum LIMIT 1) c
-- A program without tensors has allocations only.
CROSS JOIN (SELECT count(*) AS tensors FROM tensor LIMIT 1) t
CROSS JOIN (VALUES
  (1, 'with a producer'), (2, 'with a producer, exact'), (3, 'with a producer, refined'),
  (4, 'with several producers, divided by latency'), (5, 'with producers that share them'),
  (6, 'with a producer, approximate'), (7, 'with a producer, low confidence'), (8, 'with a tensor'),
  (9, 'with a tensor or an allocation')
) AS k(ordinal, item)
WHERE k.ordinal <> 8 OR t.tensors > 0
