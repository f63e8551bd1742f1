-- One stall reason at one instruction, below one call path: the leaves of the call tree.
--
-- All rows of a path add up to its samples. The function is the kernel, or one that it calls: a pc is meaningful only
-- with its function.
CREATE VIEW path_instruction (
  -- The path, as in `call_path`.
  path_id,
  -- The kernel.
  kernel_function_id,
  -- The function that holds the instruction.
  function_id,
  -- The instruction.
  pc,
  -- Disassembly of the instruction. Null if the code could not be decoded.
  instruction,
  -- File of its source line. Null without a line table.
  file,
  -- Its source line.
  source_line,
  -- The reason.
  stall_reason,
  -- True for a memory stall.
  is_memory,
  -- Samples, as in the view `sample`.
  samples,
  -- Samples among these in cycles in which the scheduler issued nothing. Never added to `samples`.
  samples_not_issued
) AS
WITH summed AS (
  SELECT
    p.path_id, p.function_id AS kernel_function_id, s.function_id, s.pc, s.stall_reason,
    sum(s.samples) AS samples, sum(s.samples_not_issued) AS samples_not_issued
  FROM sample s
  JOIN launch_path p ON p.kernel_id = s.kernel_id
  GROUP BY p.path_id, p.function_id, s.function_id, s.pc, s.stall_reason
)
SELECT
  s.path_id, s.kernel_function_id, s.function_id, s.pc, i.text, i.file, i.line, s.stall_reason, r.is_memory,
  s.samples, s.samples_not_issued
FROM summed s
JOIN stall_reason r ON r.reason = s.stall_reason
LEFT JOIN instruction i ON i.function_id = s.function_id AND i.pc = s.pc
