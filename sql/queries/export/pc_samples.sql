-- Memory stalls of instructions, as pc_samples.csv
-- Memory stalls of each instruction of each launch. An instruction is identified by its function and its pc.
SELECT
  s.kernel_id, l.pystates_hash, s.pc, sum(s.samples) AS stalls, sum(s.samples_not_issued) AS stalls_not_issued,
  s.function_id, f.demangled_name AS function
FROM sample s
JOIN stall_reason r ON r.reason = s.stall_reason
LEFT JOIN launch l ON l.kernel_id = s.kernel_id
LEFT JOIN function f ON f.function_id = s.function_id
WHERE r.is_memory
GROUP BY s.kernel_id, l.pystates_hash, s.pc, s.function_id, f.demangled_name
ORDER BY s.kernel_id, s.function_id, s.pc
