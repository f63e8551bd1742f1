-- Stall reasons
-- All samples of some phases of the program by what the warps waited for, with the kernel that has most of them.
WITH taken AS (
  SELECT
    CASE s.stall_reason WHEN 'no_instructions' THEN 'instruction fetch' WHEN 'imc_miss' THEN 'instruction fetch'
      WHEN 'selected' THEN 'issuing' WHEN 'not_selected' THEN 'issuing' WHEN 'math_pipe_throttle' THEN 'arithmetic units'
      WHEN 'wait' THEN 'fixed latencies' ELSE s.stall_reason END AS reason,
    r.is_memory, l.function_id, sum(s.samples) AS samples
  FROM launch_sample s
  JOIN stall_reason r ON r.reason = s.stall_reason
  JOIN launch l ON l.kernel_id = s.kernel_id
  JOIN launch_phase p ON p.kernel_id = s.kernel_id
  WHERE p.program_phase IN ($phases)
  GROUP BY 1, r.is_memory, l.function_id
), summed AS (
  SELECT
    reason, is_memory, first_value(function_id ORDER BY samples DESC, function_id) AS function_id, sum(samples) AS samples
  FROM taken
  GROUP BY reason, is_memory
)
SELECT
  s.reason, s.is_memory, s.samples, s.samples / nullif(sum(s.samples) OVER (), 0.0) AS share, n.short_kernel AS kernel
FROM summed s
LEFT JOIN kernel_name n ON n.function_id = s.function_id
ORDER BY s.samples DESC, s.reason
