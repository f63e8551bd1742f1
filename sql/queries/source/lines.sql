-- Source lines
-- Samples of warps that waited at each line's instructions, and samples attributed to its loads and stores, hottest
-- first. text: the line's, as the recorder found it.
WITH code AS (
  SELECT function_id FROM function_code WHERE kernel_function_id = $function
), taken AS (
  SELECT s.function_id, s.pc, s.stall_reason, sum(s.samples) AS samples
  FROM sample s
  JOIN launch l ON l.kernel_id = s.kernel_id
  WHERE l.function_id = $function
  GROUP BY s.function_id, s.pc, s.stall_reason
), charged AS (
  SELECT c.function_id, c.pc, sum(c.samples) AS samples
  FROM producer_charge c
  JOIN launch l ON l.kernel_id = c.kernel_id
  WHERE l.function_id = $function
  GROUP BY c.function_id, c.pc
), counted AS (
  SELECT function_id, pc, stall_reason, samples, 0.0 AS charged_samples FROM taken
  UNION ALL
  SELECT function_id, pc, NULL AS stall_reason, 0.0 AS samples, samples AS charged_samples FROM charged
), placed AS (
  SELECT i.file, i.line, i.function_id, i.pc, c.stall_reason, c.samples, c.charged_samples
  FROM instruction i
  JOIN code ON code.function_id = i.function_id
  LEFT JOIN counted c ON c.function_id = i.function_id AND c.pc = i.pc
  WHERE i.line IS NOT NULL
), reason AS (
  SELECT file, line, stall_reason, sum(samples) AS samples
  FROM placed
  WHERE stall_reason IS NOT NULL
  GROUP BY file, line, stall_reason
), main AS (
  SELECT file, line, first_value(stall_reason ORDER BY samples DESC, stall_reason) AS main_stall
  FROM reason
  GROUP BY file, line
)
SELECT
  p.file,
  p.line,
  count(DISTINCT p.pc) AS instructions,
  coalesce(sum(p.samples), 0.0) AS samples,
  coalesce(sum(p.charged_samples), 0.0) AS charged_samples,
  max(m.main_stall) AS main_stall,
  max(t.text) AS text
FROM placed p
LEFT JOIN main m ON m.file = p.file AND m.line = p.line
LEFT JOIN source_line t ON t.file = p.file AND t.line = p.line
GROUP BY p.file, p.line
ORDER BY samples DESC, charged_samples DESC, p.file, p.line
