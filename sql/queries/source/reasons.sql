-- Samples by reason
-- Samples of warps that waited at each instruction, by stall reason.
SELECT s.function_id, s.pc, s.stall_reason, sum(s.samples) AS samples, sum(s.samples_not_issued) AS samples_not_issued
FROM sample s
JOIN launch l ON l.kernel_id = s.kernel_id
WHERE l.function_id = $function
GROUP BY s.function_id, s.pc, s.stall_reason
ORDER BY s.function_id <> $function, s.function_id, s.pc, samples DESC, s.stall_reason
