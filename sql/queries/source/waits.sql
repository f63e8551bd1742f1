-- Waits
-- For whom each instruction can wait, whether a sample found it so or not: what chains of loads are made of.
SELECT
  p.function_id, p.pc, p.wait, p.producer_function_id, p.producer_pc, p.link, p.weight, p.confidence, p.explanation
FROM producer_candidate p
JOIN function_code c ON c.function_id = p.function_id
WHERE c.kernel_function_id = $function AND p.wait <> 'queue'
ORDER BY p.function_id <> $function, p.function_id, p.pc, p.wait, p.weight DESC, p.producer_pc
