-- One stall reason at one instruction of one kernel, over its launches: where warps waited, before attribution.
CREATE VIEW instruction_stall (
  kernel_function_id,
  kernel,
  -- The function that holds the instruction: the kernel, or one that it calls.
  function_id,
  pc,
  -- Disassembly of the instruction. Null if the code could not be decoded.
  instruction,
  -- File of its source line. Null without a line table.
  file,
  -- Its source line.
  source_line,
  -- The reason.
  stall_reason,
  is_memory,
  samples,
  samples_not_issued,
  -- Part of the kernel's samples.
  kernel_share
) AS
WITH summed AS (
  SELECT
    l.function_id AS kernel_function_id, s.function_id, s.pc, s.stall_reason,
    sum(s.samples) AS samples, sum(s.samples_not_issued) AS samples_not_issued
  FROM sample s
  JOIN launch l ON l.kernel_id = s.kernel_id
  GROUP BY l.function_id, s.function_id, s.pc, s.stall_reason
)
SELECT
  s.kernel_function_id, f.demangled_name, s.function_id, s.pc, i.text, i.file, i.line, s.stall_reason, r.is_memory,
  s.samples, s.samples_not_issued,
  s.samples / nullif(sum(s.samples) OVER (PARTITION BY s.kernel_function_id), 0.0)
FROM summed s
JOIN stall_reason r ON r.reason = s.stall_reason
LEFT JOIN function f ON f.function_id = s.kernel_function_id
LEFT JOIN instruction i ON i.function_id = s.function_id AND i.pc = s.pc
