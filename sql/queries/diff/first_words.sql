-- Arguments that code reads
-- Each word of constant bank 0 that an instruction of a kernel reads in any case, once its block of instructions runs. begin: the
-- first byte of the arguments.
SELECT DISTINCT
  k.kernel_function_id, i.function_id, i.block,
  CASE WHEN m.sm >= 100 THEN 896 WHEN m.sm >= 90 THEN 528 WHEN m.sm >= 70 THEN 352 ELSE 320 END AS begin,
  regexp_match(i.text, 'c\[0x0\]\[0x([0-9a-f]+)\]')[1] AS word, coalesce(i.memory_bytes, 4) AS bytes
FROM function_code k
JOIN instruction i ON i.function_id = k.function_id
JOIN function f ON f.function_id = k.kernel_function_id
JOIN module m ON m.module_id = f.module_id
WHERE k.is_read AND m.sm IS NOT NULL AND i.guard IS NULL AND i.text LIKE '%c[0x0][0x%'
  -- A register adds to the offset.
  AND NOT regexp_like(i.text, 'R[0-9]+ c\[0x0\]')
ORDER BY 1, 2, 3, 5, 6
