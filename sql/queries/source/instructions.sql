-- Instructions
-- Code in program order. samples: of warps that waited at the instruction. charged: of warps, here or elsewhere, that
-- waited for its loads or stores. sectors and ideal_sectors are of 32 bytes, over all its requests.
WITH code AS (
  SELECT function_id FROM function_code WHERE kernel_function_id = $function
), taken AS (
  SELECT s.function_id, s.pc, sum(s.samples) AS samples, sum(s.samples_not_issued) AS samples_not_issued
  FROM sample s
  JOIN launch l ON l.kernel_id = s.kernel_id
  WHERE l.function_id = $function
  GROUP BY s.function_id, s.pc
), charged AS (
  SELECT c.function_id, c.pc, sum(c.samples) AS samples
  FROM producer_charge c
  JOIN launch l ON l.kernel_id = c.kernel_id
  WHERE l.function_id = $function
  GROUP BY c.function_id, c.pc
), accessed AS (
  SELECT
    a.function_id, a.pc, sum(a.request_count) AS request_count, sum(a.sectors) AS sectors,
    sum(a.ideal_sectors) AS ideal_sectors
  FROM pc_tensor a
  JOIN launch l ON l.kernel_id = a.kernel_id
  WHERE l.function_id = $function
  GROUP BY a.function_id, a.pc
), place AS (
  -- Samples and accesses are shown even if the code could not be decoded.
  SELECT i.function_id, i.pc FROM instruction i JOIN code ON code.function_id = i.function_id
  UNION
  SELECT function_id, pc FROM taken
  UNION
  SELECT function_id, pc FROM accessed
)
SELECT
  p.function_id, f.demangled_name AS function, p.pc, i.block, i.file, i.line, i.call_path, i.text, i.class, i.guard,
  i.writes, i.reads, i.memory_kind, i.write_barrier, i.read_barrier, i.wait_mask, i.stall_cycles,
  coalesce(t.samples, 0.0) AS samples,
  coalesce(t.samples_not_issued, 0.0) AS samples_not_issued,
  coalesce(c.samples, 0.0) AS charged_samples,
  a.request_count AS requests,
  a.sectors,
  a.ideal_sectors
FROM place p
LEFT JOIN instruction i ON i.function_id = p.function_id AND i.pc = p.pc
LEFT JOIN function f ON f.function_id = p.function_id
LEFT JOIN taken t ON t.function_id = p.function_id AND t.pc = p.pc
LEFT JOIN charged c ON c.function_id = p.function_id AND c.pc = p.pc
LEFT JOIN accessed a ON a.function_id = p.function_id AND a.pc = p.pc
ORDER BY p.function_id <> $function, p.function_id, p.pc
