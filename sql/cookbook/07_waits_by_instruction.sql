-- Which instruction waits, and for which producer?
-- Both are given by pc in the machine code. confidence rates the evidence that one waited for the other.
-- Capture: blame_truth
WITH charged AS (
  SELECT function_id, stall_reason, pc, producer_function_id, producer_pc, confidence, sum(samples) AS charged
  FROM stall_charge
  WHERE is_memory
  GROUP BY function_id, stall_reason, pc, producer_function_id, producer_pc, confidence
)
SELECT
  f.name AS kernel, c.stall_reason, '0x' || lpad(to_hex(c.pc), 4, '0') AS stalled, w.mnemonic AS waits,
  '0x' || lpad(to_hex(c.producer_pc), 4, '0') AS producer, p.mnemonic AS waits_for, c.confidence,
  round(c.charged) AS samples
FROM charged c
JOIN function f ON f.function_id = c.function_id
LEFT JOIN instruction w ON w.function_id = c.function_id AND w.pc = c.pc
LEFT JOIN instruction p ON p.function_id = c.producer_function_id AND p.pc = c.producer_pc
ORDER BY c.charged DESC, kernel, stalled, producer
LIMIT 10
