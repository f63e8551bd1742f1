-- Producers
-- Producers of each stalled instruction: samples times the producer's weight. Rows without a producer have a remainder.
WITH taken AS (
  SELECT s.function_id, s.pc, s.stall_reason, sum(s.samples) AS samples
  FROM sample s
  JOIN launch l ON l.kernel_id = s.kernel_id
  JOIN stall_reason r ON r.reason = s.stall_reason
  WHERE l.function_id = $function AND r.is_memory
  GROUP BY s.function_id, s.pc, s.stall_reason
)
SELECT
  t.function_id, t.pc, t.stall_reason, p.producer_function_id, p.producer_pc, p.remainder, p.weight,
  t.samples * p.weight AS samples, p.confidence, p.link, p.explanation
FROM taken t
JOIN producer p ON p.function_id = t.function_id AND p.pc = t.pc AND p.stall_reason = t.stall_reason
ORDER BY t.function_id <> $function, t.function_id, t.pc, samples DESC, t.stall_reason, p.producer_pc
