-- Hot instructions for agents
-- One row per instruction and stall reason of a kernel, with its source line and its most likely producer.
WITH ranked AS (
  SELECT
    function_id, pc, stall_reason, producer_function_id, producer_pc, weight, confidence, explanation,
    row_number() OVER (PARTITION BY function_id, pc, stall_reason ORDER BY weight DESC, producer_pc) AS place
  FROM producer
)
SELECT
  s.samples, s.kernel_share, n.short_kernel, s.kernel, s.kernel_function_id, s.function_id, s.pc, s.instruction,
  s.file, s.source_line, s.stall_reason, s.is_memory, p.producer_function_id, p.producer_pc, p.weight, p.confidence,
  p.explanation
FROM instruction_stall s
LEFT JOIN kernel_name n ON n.function_id = s.kernel_function_id
LEFT JOIN ranked p
  ON p.function_id = s.function_id AND p.pc = s.pc AND p.stall_reason = s.stall_reason AND p.place = 1
