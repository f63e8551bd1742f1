-- One instruction that accesses memory wrongly, with its lines of source.
CREATE VIEW access_line (
  function_id,
  pc,
  -- Its line in the function itself, outside of all inlined ones. Null if the cubin has no lines.
  source_line,
  -- Its innermost line.
  inner_line,
  -- The functions inlined around it, innermost first, each with the line that calls it, one per line of text. Null if there are none.
  call_path,
  -- The instruction.
  instruction
) AS
WITH wrong AS (
  SELECT function_id, pc FROM address_fault
  UNION SELECT function_id, pc FROM unwritten_read
  UNION SELECT function_id, pc FROM block_conflict
  UNION SELECT other_function_id, other_pc FROM block_conflict
  UNION SELECT function_id, pc FROM shared_conflict
  UNION SELECT other_function_id, other_pc FROM shared_conflict
)
SELECT
  w.function_id, w.pc,
  coalesce(nullif(regexp_replace(i.call_path, '(?s)^.*[/ ]', ''), ''), regexp_replace(i.file, '^.*/', '') || ':' || CAST(i.line AS VARCHAR)),
  regexp_replace(i.file, '^.*/', '') || ':' || CAST(i.line AS VARCHAR), i.call_path, i.text
FROM wrong w
JOIN instruction i ON i.function_id = w.function_id AND i.pc = w.pc
