-- Kernel
-- The kernel over all its launches. share: part of all samples. block_threads and later columns are of the launch with
-- most blocks.
WITH shape AS (
  SELECT
    min(block_count) AS least_blocks,
    max(block_count) AS most_blocks,
    first_value(block_threads ORDER BY block_count DESC NULLS LAST, kernel_id) AS block_threads,
    first_value(register_count ORDER BY block_count DESC NULLS LAST, kernel_id) AS register_count,
    first_value(occupancy ORDER BY block_count DESC NULLS LAST, kernel_id) AS occupancy,
    first_value(idle_multiprocessor_share ORDER BY block_count DESC NULLS LAST, kernel_id) AS idle_multiprocessor_share
  FROM launch_occupancy
  WHERE function_id = $function
)
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
  o.least_blocks,
  o.most_blocks,
  o.block_threads,
  o.register_count,
  o.occupancy,
  o.idle_multiprocessor_share,
  c.reason AS not_read_because
FROM kernel_cost k
LEFT JOIN kernel_name n ON n.function_id = k.function_id
LEFT JOIN function f ON f.function_id = k.function_id
LEFT JOIN module m ON m.module_id = f.module_id
LEFT JOIN function_code c ON c.function_id = k.function_id
LEFT JOIN shape o ON true
WHERE k.function_id = $function
