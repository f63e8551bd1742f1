-- Code below call paths
-- One instruction that has samples: its function, the functions inlined around it, and its source line.
SELECT
  s.function_id, s.pc, coalesce(n.short_kernel, f.demangled_name) AS function, i.call_path, i.file, i.line, i.text
FROM (SELECT DISTINCT function_id, pc FROM sample) s
LEFT JOIN function f ON f.function_id = s.function_id
LEFT JOIN kernel_name n ON n.function_id = s.function_id
LEFT JOIN instruction i ON i.function_id = s.function_id AND i.pc = s.pc
ORDER BY s.function_id, s.pc
