-- Waits
-- Instructions that each instruction can wait for, with or without a sample: the links of load chains.
SELECT
  p.function_id, p.pc, p.wait, p.producer_function_id, p.producer_pc, p.link, p.weight, p.confidence, p.explanation
FROM producer_candidate p
JOIN function_code c ON c.function_id = p.function_id
WHERE c.kernel_function_id = $function AND p.wait <> 'queue'
ORDER BY p.function_id <> $function, p.function_id, p.pc, p.wait, p.weight DESC, p.producer_pc
