-- Kernel
-- The kernel over all its launches. share: part of all samples.
SELECT
  coalesce(n.short_kernel, k.kernel) AS kernel,
  k.kernel AS full_name,
  k.function_id,
  m.sm,
  k.launch_count AS launches,
  k.samples,
  k.share,
  k.memory_samples,
  k.time_ns,
  c.instruction_count AS instructions,
  c.unknown_count AS unknown_instructions,
  c.reason AS not_read_because
FROM kernel_cost k
LEFT JOIN kernel_name n ON n.function_id = k.function_id
LEFT JOIN function f ON f.function_id = k.function_id
LEFT JOIN module m ON m.module_id = f.module_id
LEFT JOIN function_code c ON c.function_id = k.function_id
WHERE k.function_id = $function
