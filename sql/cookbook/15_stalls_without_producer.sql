-- Which stalls have no producer, and why?
-- Where the code could not be read, its functions say so; else nothing that the instruction needs was on its way.
-- Capture: transformer_step
WITH charged AS (
  SELECT function_id, pc, stall_reason, sum(samples) AS charged
  FROM stall_charge
  WHERE charge = 'no producer'
  GROUP BY function_id, pc, stall_reason
)
SELECT
  regexp_replace(
    regexp_replace(replace(coalesce(f.demangled_name, f.name), '(anonymous namespace)::', ''), '[<(].*', ''), '^void ', '')
    AS function,
  '0x' || lpad(to_hex(c.pc), 4, '0') AS place, i.mnemonic, c.stall_reason,
  CASE WHEN NOT k.is_read THEN 'its code is not read: ' || coalesce(k.reason, 'no reason given')
    WHEN i.mnemonic IS NULL THEN 'no instruction is known there'
    ELSE 'nothing that reaches it sets what it waits for' END AS why,
  round(c.charged, 1) AS samples
FROM charged c
LEFT JOIN function f ON f.function_id = c.function_id
LEFT JOIN function_code k ON k.function_id = c.function_id
LEFT JOIN instruction i ON i.function_id = c.function_id AND i.pc = c.pc
ORDER BY c.charged DESC, function, place
LIMIT 5
